from benchmarks.readme import commands_of, follow

PAGE = """Text with `inline code` is not typed.

```sh
one --flag
two
```

```console
$ three
what three prints
```

```text
neither is this
```

```python
import four

four.five()
```
"""


def test_commands_are_what_a_reader_would_type():
    assert commands_of(PAGE) == [
        "one --flag",
        "two",
        "three",
        "import four\n\nfour.five()\n",
    ]


def test_each_command_has_its_code_and_its_time_and_one_shell_runs_them_all(tmp_path):
    done = follow(["cd docs", "test -f index.md", "false"], tmp_path)
    assert [(command, code) for command, code, _ in done] == [
        ("cd docs", 0),
        ("test -f index.md", 0),
        ("false", 1),
    ]
    assert all(0 <= seconds < 60 for _, _, seconds in done)
