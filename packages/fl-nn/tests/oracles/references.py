"""Optimizers that PyTorch lacks, from their papers and first implementations, in torch."""

from __future__ import annotations

import torch


class Reference(torch.optim.Optimizer):
    """Calls `rule(p, g, state, group)` for every parameter with a gradient."""

    def __init__(self, params, **settings):
        super().__init__(params, settings)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    state = self.state[p]
                    state["t"] = state.get("t", 0) + 1
                    self.rule(p, p.grad.clone(), state, group)


class NAG(Reference):
    """fairseq/optim/nag.py, whose velocity is in units of the parameters. There the old rate is
    noted for the group at each step; here for the parameter, so that skipped steps agree."""

    def rule(self, p, g, state, group):
        lr, momentum = group["lr"], group["momentum"]
        correct = lr / state.get("lr_old", lr)
        buf = state.setdefault("buf", torch.zeros_like(p))
        p.mul_(1 - lr * group["weight_decay"])
        p.add_(buf, alpha=momentum * momentum * correct)
        p.add_(g, alpha=-(1 + momentum) * lr)
        buf.mul_(momentum * correct).add_(g, alpha=-lr)
        state["lr_old"] = lr


class Novograd(Reference):
    """Algorithm 1 of arXiv 1905.11286."""

    def rule(self, p, g, state, group):
        (b1, b2), wd = group["betas"], group["weight_decay"]
        squared = torch.linalg.vector_norm(g) ** 2
        state["v"] = squared if state["t"] == 1 else b2 * state["v"] + (1 - b2) * squared
        u = g / (state["v"].sqrt() + group["eps"]) + wd * p
        if group["grad_averaging"]:
            u = u * (1 - b1)
        state["m"] = u if state["t"] == 1 else b1 * state["m"] + u
        p.sub_(group["lr"] * state["m"])


class LAMB(Reference):
    """Algorithm 2 of arXiv 1904.00962."""

    def rule(self, p, g, state, group):
        (b1, b2), t = group["betas"], state["t"]
        m = state.setdefault("m", torch.zeros_like(p)).lerp_(g, 1 - b1)
        v = state.setdefault("v", torch.zeros_like(p)).lerp_(g.square(), 1 - b2)
        r = (m / (1 - b1**t)) / ((v / (1 - b2**t)).sqrt() + group["eps"])
        u = r + group["weight_decay"] * p
        long, wide = p.norm().item(), u.norm().item()
        p.sub_(u, alpha=group["lr"] * (long / wide if long and wide else 1.0))


class Lion(Reference):
    """Algorithm 2 of arXiv 2302.06675."""

    def rule(self, p, g, state, group):
        b1, b2 = group["betas"]
        m = state.setdefault("m", torch.zeros_like(p))
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.sub_(m.lerp(g, 1 - b1).sign(), alpha=group["lr"])
        m.lerp_(g, 1 - b2)
