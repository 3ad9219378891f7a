"""For `--tool-parser-plugin` and `--reasoning-parser-plugin`, as a module name or as the path of this file.

The entry point of the package makes both needless, unless `VLLM_PLUGINS` leaves it out.
"""

from kimi_xtml.vllm import register

register()
