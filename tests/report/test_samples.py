from entrometer.report.measure.samples import by_checkpoint
from tests.report.toy import sample


def test_a_prompt_is_written_once_above_its_responses():
    samples = [sample("a"), sample("b", prompt=1), sample("c")]
    (checkpoint,), left_out = by_checkpoint(samples, budget=1000)
    texts = [[r.text for r in p.responses] for p in checkpoint.prompts]
    assert (texts, left_out) == ([["a", "c"], ["b"]], 0)
    assert checkpoint.facts == "3 responses to 2 prompts, 9 tokens"


def test_what_has_no_room_is_left_out_whole_and_counted():
    samples = [sample("short"), sample("long " * 100, prompt=1), sample("tail")]
    (checkpoint,), left_out = by_checkpoint(samples, budget=100)
    assert left_out == 1
    assert [r.text for p in checkpoint.prompts for r in p.responses] == [
        "short",
        "tail",
    ]


def test_room_is_what_the_markup_takes():
    _, left_out = by_checkpoint([sample("\x1b" * 3 + "x\x1bx\x1b")], budget=40)
    assert left_out == 1


def test_checkpoints_keep_their_order():
    samples = [sample("a", checkpoint=name) for name in ("z", "a", "z")]
    assert [c.name for c in by_checkpoint(samples, budget=1000)[0]] == ["z", "a"]
