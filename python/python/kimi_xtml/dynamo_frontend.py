"""Dynamo's frontend with the parsers registered: `python -m kimi_xtml.dynamo_frontend` and the frontend's own flags.

For its SGLang processor, which loads no plugins of SGLang's. At import the parsers are registered, so that processes
which the frontend starts have them too; run as a program, it goes on to be `python -m dynamo.frontend`.
"""

import runpy

from kimi_xtml.sglang import register

register()

if __name__ == "__main__":
    runpy.run_module("dynamo.frontend", run_name="__main__", alter_sys=True)
