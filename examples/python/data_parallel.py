"""data_parallel - several processes train one network, each on its part of every batch.

    python3 examples/python/data_parallel.py --ranks 2
    weir launch --ranks 2 python3 examples/python/data_parallel.py

The first starts processes that meet by an NcclIdHolder, as SINGA's train_multiprocess does; in the
second DistOpt finds those that weir launch has started, as it does under mpirun. Each prints its
last loss and a digest of the parameters, which is the same on all ranks.
"""
import argparse
import hashlib
import multiprocessing
import sys

import common
import weir
from models import DigitsCNN
from weir import opt, singa_wrap, tensor

SHAPE = (1, 8, 8)


def train(args: argparse.Namespace, holder: singa_wrap.NcclIdHolder | None = None,
          rank: int | None = None) -> None:
    """One rank."""
    weir.set_seed(args.seed)
    digits, net = common.Digits(), DigitsCNN()
    dist = opt.DistOpt(opt.SGD(args.lr, momentum=0.9), holder, rank, args.ranks if holder else None)
    net.optimizer = dist
    part = args.batch // dist.world_size

    def batch(i: int) -> tuple[tensor.Tensor, tensor.Tensor]:
        x, y = digits.batch(i * dist.world_size + dist.global_rank, part, SHAPE)
        return tensor.from_numpy(x), tensor.from_numpy(y)
    net.compile([batch(0)[0]], is_train=True, use_graph=True, budget=args.budget)
    for i in range(args.steps):
        _, loss = net(*batch(i))
    values = b"".join(p.numpy().tobytes() for _, p in sorted(net.get_params().items()))
    # print writes its end apart where Python runs unbuffered, so two ranks could mix their lines.
    sys.stdout.write(f"rank {dist.global_rank} of {dist.world_size}: last loss "
                     f"{loss.numpy().item():.4f}, "
                     f"parameters {hashlib.blake2b(values, digest_size=8).hexdigest()}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1, help="processes to start")
    parser.add_argument("--steps", type=int, default=60, help="steps of training")
    parser.add_argument("--batch", type=int, default=64, help="samples of a step, of all ranks")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate")
    parser.add_argument("--budget", metavar="SIZE", help="most that a rank's step may take")
    parser.add_argument("--seed", type=int, default=1, help="of the weights, on all ranks")
    args = parser.parse_args()
    if args.ranks == 1:
        train(args)
        return
    context = multiprocessing.get_context("spawn")
    holder = singa_wrap.NcclIdHolder()
    ranks = [context.Process(target=train, args=(args, holder, r)) for r in range(args.ranks)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    if any(process.exitcode for process in ranks):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
