"""Bad values that are taken on purpose, each with its reason.

Keys are patterns of the names of cases. A pattern that matches nothing accepted fails.
"""

from __future__ import annotations

ACCEPTED: dict[str, str] = {
    "ag.grad(inputs=[])": "no inputs have no gradients",
    "ag.value_and_grad(argnums=3)": "how many arguments there are shows in the call",
    "ft.ops_for(base=*": "every operation calls it: it trusts the extensions that do",
    "ft.percentile(q=b'1')": "bytes are a buffer of uint8",
    "ft.trace(whole=['x'])": "a name that no operation of the block has selects nothing",
}
