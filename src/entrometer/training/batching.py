"""How an update is cut into what one process can hold."""

from entrometer.errors import InvalidValue


def accumulation_steps(
    *, prompts: int, responses: int, micro_batch: int, processes: int
) -> int:
    """Micro-batches a process makes for one update.

    A micro-batch holds whole prompt groups, and the update is the same whatever the
    number of processes.
    """
    if micro_batch % responses:
        raise InvalidValue(
            f"expected micro-batches of whole groups of {responses} responses, got "
            f"micro_batch={micro_batch}; make it a multiple of {responses}"
        )
    total, each = prompts * responses, micro_batch * processes
    if total % each:
        raise InvalidValue(
            f"expected an update of {prompts} x {responses} = {total} responses to be "
            f"a multiple of micro_batch x processes = {micro_batch} x {processes} = "
            f"{each}; change prompts or micro_batch"
        )
    return total // each
