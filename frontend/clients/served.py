"""A server for as long as a `with` lasts. In: the program and its arguments. Out: its URL. Held: the process."""
import contextlib
import subprocess


@contextlib.contextmanager
def served(program, *arguments):
    process = subprocess.Popen([program, "--port", "0", "--log-level", "warn", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline().strip()
        assert line.startswith("listening on "), line
        yield line.removeprefix("listening on ")
    finally:
        process.terminate()
        process.wait()
