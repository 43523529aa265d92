"""Fits a polynomial with JAX on all machines of the job; the first of them saves for all."""

import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.multihost_utils import process_allgather

from stellwerk.runtime.helper import checkpoint_complete, done, should_stop
from stellwerk.runtime.training import checkpoint_dir

STEPS = int(os.environ.get("STEPS", "200"))
SAVE_EVERY = 500
PUT_ME_BACK = 85


def loss_of(weights: jax.Array, points: jax.Array) -> jax.Array:
    """How far a polynomial is from a sine."""
    return jnp.mean((jnp.polyval(weights, points) - jnp.sin(3 * points)) ** 2)


def save(saved: Path, step: int, weights: jax.Array) -> None:
    """Writes beside, then renames: a kill in the middle leaves the last one whole."""
    if jax.process_index() == 0:
        draft = saved.with_suffix(".new.npz")
        np.savez(draft, step=step, weights=np.asarray(weights))
        draft.replace(saved)
        checkpoint_complete(str(saved))


def main() -> None:
    if int(os.environ.get("SKYPILOT_NUM_NODES", "1")) > 1:
        jax.distributed.initialize()
    saved = Path(checkpoint_dir()) / "fit.npz"
    saved.parent.mkdir(parents=True, exist_ok=True)
    step, weights = 0, jnp.zeros(6)
    if saved.exists():
        kept = np.load(saved)
        step, weights = int(kept["step"]), jnp.asarray(kept["weights"])
        print(f"goes on after step {step}", flush=True)
    ask = jax.jit(jax.value_and_grad(loss_of))
    while step < STEPS:
        step += 1
        key = jax.random.key(step * 1009 + jax.process_index())
        loss, slope = ask(weights, jax.random.uniform(key, (256,), minval=-1.0))
        weights -= 0.1 * jnp.mean(process_allgather(slope[None], tiled=True), axis=0)
        if step % 100 == 0 and jax.process_index() == 0:
            print(f"step {step}  loss {loss:.5f}", flush=True)
        # One machine may hear of the notice a step before the others: all ask together.
        stop = process_allgather(np.array([should_stop()])).any()
        if stop or step % SAVE_EVERY == 0:
            save(saved, step, weights)
        if stop:
            sys.exit(PUT_ME_BACK)
    save(saved, step, weights)
    done()


if __name__ == "__main__":
    main()
