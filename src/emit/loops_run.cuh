/* loops_run.cuh - the kernel of a loop of the host, after the loop's text. */
#ifndef CR_EMIT_LOOPS_RUN_CUH
#define CR_EMIT_LOOPS_RUN_CUH

struct cl_call {
    cm_i64 n;
    char job[CL_JOB] __attribute__((aligned(8)));
};

CK_KERNEL(cl_run, cl_call)
{
    for (cm_i64 i = ck_first_x(); i < call.n; i += ck_step_x())
        CL_FN((void *)call.job, i, i + 1);
}

#endif
