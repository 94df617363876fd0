"""Lists of actions with those around computation: whole parameters of fully_shard, and messages between stages.

A list of computations says what each rank computes, in order; None is an idle step.  The functions here add when parameters are whole
(UNSHARD, RESHARD), when gradients are reduced (REDUCE_GRAD) and when a stage sends and receives (SEND_F, RECV_F, SEND_B, RECV_B).  The
names in schedules.py are torch's.
"""
from collections import Counter, deque

from ._actions import Action, B, F, I, Kind, W, table_of

__all__ = ["add_reduce_grad", "add_send_recv", "add_unshard_reshard", "check_messages", "computations", "merge_halves", "simulate"]

UNSHARD, RESHARD, REDUCE_GRAD = Kind.UNSHARD, Kind.RESHARD, Kind.REDUCE_GRAD
SEND_F, RECV_F, SEND_B, RECV_B = Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B


def computations(actions):
    """Returns the actions of a rank that compute."""
    return [a for a in actions if a is not None and a.is_compute_op]


def add_unshard_reshard(compute_actions, max_active_stages=3):
    """Adds UNSHARD before a stage's action, as far ahead as `max_active_stages` stages, and RESHARD when others need the place."""
    actions, made, whole = computations(compute_actions), [], []
    for k, action in enumerate(actions):
        wanted = list(dict.fromkeys(a.stage_index for a in actions[k:]))[:max_active_stages]
        for s in [s for s in whole if s not in wanted]:
            whole.remove(s)
            made.append(Action(s, RESHARD))
        for s in [s for s in wanted if s not in whole]:
            whole.append(s)
            made.append(Action(s, UNSHARD))
        made.append(action)
    return made + [Action(s, RESHARD) for s in whole]


def add_reduce_grad(actions, n_microbatches):
    """Adds REDUCE_GRAD after the last backward of each stage."""
    made, ended = [], Counter()
    for a in actions:
        if a is None:
            continue
        made.append(a)
        if a.computation_type in (B, W):
            ended[a.stage_index] += 1
            if ended[a.stage_index] == n_microbatches:
                made.append(Action(a.stage_index, REDUCE_GRAD))
    return made


def merge_halves(compute_actions):
    """Returns the list with both halves of a backward as one action where they follow each other; idle steps are left out."""
    made = []
    for a in (a for a in compute_actions if a is not None):
        if a.computation_type is W and made and made[-1] == Action(a.stage_index, I, a.microbatch_index):
            made[-1] = Action(a.stage_index, B, a.microbatch_index)
        else:
            made.append(a)
    return made


def _messages(action, stage_to_rank, stages):
    """Returns the SEND and the RECV of what an action makes for a stage of another rank."""
    s, kind, m = action
    if kind is F and s < stages - 1:
        to, send, receive = s + 1, SEND_F, RECV_F
    elif kind in (B, I) and s:
        to, send, receive = s - 1, SEND_B, RECV_B
    else:
        return ()
    if stage_to_rank(to) == stage_to_rank(s):
        return ()
    return Action(s, send, m), Action(to, receive, m)


def _is_ready(action, done, stage_to_rank, stages):
    """Tells whether what an action needs of its rank and of senders is done; `done` has the set of each rank."""
    if action is None:
        return True
    s, kind, m = action
    own = done[stage_to_rank(s)]
    if kind is F:
        return s == 0 or Action(s, RECV_F, m) in own or Action(s - 1, F, m) in own
    if kind in (B, I):
        return s == stages - 1 or any(a in own for a in (Action(s, RECV_B, m), Action(s + 1, B, m), Action(s + 1, I, m)))
    if kind is SEND_F:
        return Action(s, F, m) in own
    if kind is SEND_B:
        return Action(s, B, m) in own or Action(s, I, m) in own
    if kind is RECV_F:
        return Action(s - 1, SEND_F, m) in done[stage_to_rank(s - 1)]
    if kind is RECV_B:
        return Action(s + 1, SEND_B, m) in done[stage_to_rank(s + 1)]
    return True


def add_send_recv(compute_actions, stage_to_rank, num_stages):
    """Adds the messages to the lists of all ranks: a SEND after the action that makes it, and a RECV at the same time at the other rank."""
    left = {r: deque(compute_actions[r]) for r in sorted(compute_actions)}
    made, done = {r: [] for r in left}, {r: set() for r in left}

    def add(rank, action):
        made[rank].append(action)
        done[rank].add(action)
    while any(left.values()):
        moved = False
        for rank, actions in left.items():
            if not actions or not _is_ready(actions[0], done, stage_to_rank, num_stages):
                continue
            action, moved = actions.popleft(), True
            if action is None:
                continue
            add(rank, action)
            for message in _messages(action, stage_to_rank, num_stages):
                add(stage_to_rank(message.stage_index), message)
        if not moved:
            stuck = "\n".join(f"rank={r} next action= {a[0]}" for r, a in left.items() if a)
            raise AssertionError(f"Malformed compute schedule, can't schedule sends/recvs\nWIP comms schedule:\n{table_of(made)}\n{stuck}")
    return made


def simulate(pipeline_order, stage_to_rank, num_stages):
    """Runs lists with messages without computing: a rank does one action in a step, or waits.  Returns the lists with None where a rank
    waits; raises for ranks that wait for each other."""
    left = {r: deque(a for a in pipeline_order[r] if a is not None) for r in sorted(pipeline_order)}
    made, done = {r: [] for r in left}, {r: set() for r in left}
    while any(left.values()):
        ranks = [r for r, actions in left.items() if actions]
        moved = set()
        for r in ranks + ranks[::-1]:  # an action of this step lets ranks before it go on, too
            if r not in moved and _is_ready(left[r][0], done, stage_to_rank, num_stages):
                made[r].append(left[r].popleft())
                done[r].add(made[r][-1])
                moved.add(r)
        for r in ranks:
            if r not in moved:
                made[r].append(None)
        if not moved:
            stuck = "\n".join(f"rank={r} next action= {a[0]}" for r, a in left.items() if a)
            raise ValueError(f"Schedule is not progressing\nWIP comms schedule:\n{table_of(made)}\n{stuck}")
    return made


def check_messages(order, where, stages):
    """Raises for lists whose messages are not those of their computations, or in which ranks wait for each other."""
    expected = add_send_recv({r: computations(order[r]) for r in order}, where.__getitem__, stages)
    kinds = (SEND_F, RECV_F, SEND_B, RECV_B)
    for r in order:
        found, wanted = (Counter(a for a in actions if a.computation_type in kinds) for actions in (order[r], expected[r]))
        if found != wanted:
            raise ValueError(f"rank {r}: the messages of the schedule are not those of its computations: missing "
                             f"{sorted(map(str, wanted - found))}, unexpected {sorted(map(str, found - wanted))}")
    simulate(order, where.__getitem__, stages)
