"""Schedules as data: for each rank the list of its actions, in order.

An action is a forward (F), a backward (B), or one of a backward's two halves: the gradients of a stage's inputs (I), which the stage
before waits for, and those of its parameters (W), which nothing waits for.  The other kinds are those of _lowering.py.  check() counts the actions and runs the lists without
computing: a rank whose next action waits for one that never comes is a cycle, and the schedule is refused.
"""
import re
from collections import defaultdict
from enum import Enum
from typing import NamedTuple, Optional

__all__ = ["Action", "Kind", "check", "fifo_order", "interleaved_order", "one_f_one_b_order", "stage_ranks", "table_of", "v_order"]


class Kind(str, Enum):
    """What an action does."""

    FORWARD = "F"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"
    UNSHARD = "UNSHARD"
    RESHARD = "RESHARD"
    SEND_F = "SEND_F"
    RECV_F = "RECV_F"
    SEND_B = "SEND_B"
    RECV_B = "RECV_B"
    FULL_BACKWARD = "B"
    REDUCE_GRAD = "REDUCE_GRAD"

    def __str__(self):
        return self.value


F, I, W, B = Kind.FORWARD, Kind.BACKWARD_INPUT, Kind.BACKWARD_WEIGHT, Kind.FULL_BACKWARD  # noqa: E741
_TEXT = re.compile(rf"(\d+)({'|'.join(kind.value for kind in Kind)})(\d*)")


class Action(NamedTuple):
    """What a stage does with a part of the batch, or with its parameters; printed and read as 2F0 or 2UNSHARD."""

    stage_index: int
    computation_type: Kind
    microbatch_index: Optional[int] = None

    def __repr__(self):
        part = "" if self.microbatch_index is None else self.microbatch_index
        return f"{self.stage_index}{self.computation_type.value}{part}"

    __str__ = __repr__

    @property
    def is_compute_op(self):
        """Whether this is a forward, a backward or a half of one."""
        return self.computation_type in (F, B, I, W)

    @staticmethod
    def from_str(action_string):
        """Returns the action of a text, None of an empty one."""
        text = action_string.strip()
        if not text:
            return None
        found = _TEXT.fullmatch(text)
        if found is None:
            raise RuntimeError(f"Invalid action string: {text}, should be formatted as [stage][action type][(microbatch)] e.g. 2F0")
        return Action(int(found[1]), Kind(found[2]), int(found[3]) if found[3] else None)


# --- where stages are ---------------------------------------------------------------------------------------------

def stage_ranks(ranks, stages, style="loop"):
    """Returns {stage: rank}: round and round, or to and fro (the first rank has the first stage and the last one)."""
    if stages % ranks:
        raise ValueError(f"num_stages {stages} must be evenly divisible by pp_size {ranks} for {style} schedules")
    if style not in ("loop", "v"):
        raise ValueError(f"Style {style} is not supported.")
    made = {}
    for s in range(stages):
        turn, place = divmod(s, ranks)
        made[s] = ranks - 1 - place if style == "v" and turn % 2 else place
    return made


# --- orders -------------------------------------------------------------------------------------------------------

def fifo_order(ranks, local, count):
    """All forwards of a rank's stages, then all backwards."""
    made = {}
    for r in range(ranks):
        own = [r + ranks * k for k in range(local)]
        made[r] = [Action(s, F, m) for s in own for m in range(count)]
        made[r] += [Action(s, B, m) for s in reversed(own) for m in (range(count) if local == 1 else reversed(range(count)))]
    return made


def one_f_one_b_order(ranks, count):
    """One stage a rank: as many forwards as stages follow, then a forward and a backward in turn."""
    made = {}
    for r in range(ranks):
        ahead = min(count, ranks - r)
        made[r] = [Action(r, F, m) for m in range(ahead)]
        for m in range(count):
            made[r].append(Action(r, B, m))
            if ahead + m < count:
                made[r].append(Action(r, F, ahead + m))
    return made


def interleaved_order(ranks, local, count, halves=False):
    """Several stages a rank: parts go through the stages in rounds; with `halves` the second halves of backwards are late."""
    rounds = max(1, count // ranks)
    if count % rounds:
        name = "Zero bubble" if halves else "Interleaved 1F1B"
        raise ValueError(f"{name} requires the number of microbatches to be a multiple of the number of rounds ({rounds}), "
                         f"but got {count}.")
    each, made = count // rounds, {}
    for r in range(ranks):
        own = [r + ranks * k for k in range(local)]
        turns = [range(k * each, (k + 1) * each) for k in range(rounds)]
        forward = [Action(s, F, m) for turn in turns for s in own for m in turn]
        backward = [Action(s, I if halves else B, m) for turn in turns for s in reversed(own) for m in turn]
        late = [Action(a.stage_index, W, a.microbatch_index) for a in backward] if halves else []
        ahead = min((local - 1) * each + (1 if halves else 2) * (ranks - 1 - r), len(forward))
        made[r], forward, done = forward[:ahead], forward[ahead:], 0
        for k, action in enumerate(backward):
            made[r] += forward[k:k + 1] + [action]
            if halves and k >= r:
                made[r].append(late[done])
                done += 1
        made[r] += late[done:]
    return made


def v_order(ranks, count, halves):
    """Two stages a rank, to and fro: steps in which each rank takes its first action that is ready, backwards before forwards and the
    later stage first; a rank keeps at most 2 * ranks parts between forward and the end of backward.  With `halves` the halves that
    nothing waits for come in idle steps, and before a forward that would keep one part more."""
    where, stages = stage_ranks(ranks, 2 * ranks, "v"), 2 * ranks
    done, made, late = set(), {r: [] for r in range(ranks)}, {r: [] for r in range(ranks)}
    following = defaultdict(int)  # (stage, kind): the next part
    back = I if halves else B
    while sum(map(len, made.values())) < stages * count * (3 if halves else 2):
        taken = {}
        for r in range(ranks):
            own = [s for s in range(stages) if where[s] == r]
            kept = sum(following[s, F] - following[s, W if halves else B] for s in own)
            ready = [Action(s, back, following[s, back]) for s in own if following[s, back] < following[s, F]]
            if kept < stages:
                ready += [Action(s, F, following[s, F]) for s in reversed(own) if following[s, F] < count]
            ready = [a for a in ready if all(n in done for n in needs(a, stages, halves))]
            action = ready[0] if ready else late[r].pop(0) if late[r] else None
            if action is not None:
                taken[r] = action
        if not taken:
            raise AssertionError(f"no action of {ranks} ranks is ready: {made}")
        for r, action in taken.items():
            made[r].append(action)
            done.add(action)
            following[action.stage_index, action.computation_type] += 1
            if action.computation_type is I:
                late[r].append(Action(action.stage_index, W, action.microbatch_index))
    return made


# --- checks -------------------------------------------------------------------------------------------------------

def needs(action, stages, halves=None):
    """Returns the actions that must come before one; of a backward of the next stage either kind where `halves` is None."""
    s, kind, m = action
    if kind is F:
        return [Action(s - 1, F, m)] if s else []
    if kind is W:
        return [Action(s, I, m)]
    after = [] if s == stages - 1 else [Action(s + 1, B if halves is None or not halves else I, m)]
    return [Action(s, F, m), *after]


def _satisfied(need, done):
    if need in done:
        return True
    return need.computation_type is B and Action(need.stage_index, I, need.microbatch_index) in done


def table_of(order, error_step=None):
    """Returns the lists of all ranks as columns of a text, with a mark at the row of an error."""
    ranks = sorted(order)
    length = max((len(order[r]) for r in ranks), default=0)
    digits = len(str(max(length - 1, 0)))
    rows = [[f"Step {k:0{digits}}:", *(str(order[r][k]) if k < len(order[r]) and order[r][k] is not None else "" for r in ranks)]
            for k in range(length)]
    rows.insert(0, [" " * (6 + digits), *(f"Rank {r}" for r in ranks)])
    widths = [max(len(row[k]) for row in rows) for k in range(len(ranks) + 1)]
    return "".join(" ".join(t.ljust(w) for t, w in zip(row, widths)) + (" <-- ERROR HERE" if k - 1 == error_step else "") + "\n"
                   for k, row in enumerate(rows))


def _count(order, ranks, stages, count):
    if len(order) != ranks:
        raise AssertionError(f"Schedule has incorrect number of ranks - expected {ranks}, actual {len(order)}")
    where, found = {}, defaultdict(set)
    for r in range(ranks):
        if r not in order:
            raise AssertionError(f"Schedule is missing actions for rank {r}")
        for step, a in enumerate(order[r]):
            if a is None:
                continue
            if not isinstance(a, Action):
                raise AssertionError(f"Rank {r}, step {step}: Got an invalid action: {a}, expected instance of _Action")
            if where.setdefault(a.stage_index, r) != r:
                raise AssertionError(f"Rank {r}, step {step}: Stage {a.stage_index} is assigned to both rank {r} and rank "
                                     f"{where[a.stage_index]}")
            if a.microbatch_index in found[a.stage_index, a.computation_type] or not 0 <= a.stage_index < stages:
                raise AssertionError(f"Rank {r}, step {step}: {a} comes twice, or is not a stage of {stages}")
            found[a.stage_index, a.computation_type].add(a.microbatch_index)
    for s in range(stages):
        f, b, i, w = (len(found[s, kind]) for kind in (F, B, I, W))
        if f != count:
            raise AssertionError(f"Got {f} {F.value} microbatches for stage {s}, expected {count}")
        if i != w:
            raise AssertionError(f"Invalid backward microbatches for stage {s}: I and W must have equal counts, but got I={i}, W={w}")
        if b + i not in (0, count):
            raise AssertionError(f"Invalid backward microbatches for stage {s}: expected {count} total backwards, but got B={b}, "
                                 f"I={i}, W={w}")
    return where


def check(order, ranks, stages, count):
    """Raises for lists that miss actions, or in which ranks wait for each other.  Returns {stage: rank}."""
    where = _count(order, ranks, stages, count)
    left, done = {r: [a for a in order[r] if a is not None] for r in order}, set()
    at = dict.fromkeys(order, 0)
    moved = True
    while moved:
        moved = False
        for r in order:
            while at[r] < len(left[r]) and all(_satisfied(n, done) for n in needs(left[r][at[r]], stages)):
                done.add(left[r][at[r]])
                at[r] += 1
                moved = True
    stuck = {r: left[r][at[r]] for r in order if at[r] < len(left[r])}
    if stuck:
        lines = [f"rank {r} waits at {a} for {', '.join(str(n) for n in needs(a, stages) if not _satisfied(n, done))}"
                 for r, a in stuck.items()]
        raise RuntimeError("the schedule has a cycle: " + "; ".join(lines) + "\n" + table_of(left))
    return where
