/* Functions of the devices' tables that need kernels. */
#include "kern/devices.h"
#include "device/cpu/cpu.h"
#include "kern/move.h"

void cr_kern_install_devices(void)
{
    cr_cpu_ops.move = cr_host_move;
    cr_cpu_ops.fill = cr_host_fill;
    cr_cpu_ops.indexed = cr_host_indexed;
    cr_cpu_ops.combine = cr_host_combine;
    cr_cpu_ops.windows = cr_host_windows;
    cr_cpu_ops.lines = cr_host_lines;
}
