"""Memory and time of one optimizer step with LoRA on paper: what docs/scaling.md tabulates.

Weights are counted on the meta device. What autograd keeps is counted, not guessed: one block of the real width runs a
few tokens, and the policy runs on a small model whose logits are recognized by their size. Time is floating-point
operations over an assumed share of the card's peak. What several cards hold and gather with `shard` follows, for full
fine-tuning and for the adapters.

    python -m scripts.benchmarks.memory_budget [--lora_r 32 --max_tokens_per_pass 32768 …]
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from transformers import AutoConfig, PreTrainedModel

from dllm_rl import LladaConfig, LladaForMaskedLM, PolicyConfig
from dllm_rl.policy import action_logprobs, score_states
from dllm_rl.reward import log_expected_reward_of
from llm_rl import add_lora
from llm_rl.core._options import option
from llm_rl.training import need_model, parse, user_errors
from llm_rl.training.sharding import units

GB, TOKENS, VOCABULARY, MASK = 1e9, 16, 1013, 7


@dataclass
class BudgetArguments:
    """A step of LLaDA-8B, what it is assumed to meet, and the card: H100 SXM, by its data sheet."""

    model: str | None = option(None, "Folder with a LLaDA config.json; None: LLaDA-8B.")
    lora_r: int = option(16, "Rank of the adapters.")
    prompt_length: int = option(260, "Tokens of a prompt.")
    max_gen_length: int = option(80, "Tokens of a response.")
    puzzles: int = option(8, "Q: puzzles of an optimizer step, accumulation included.")
    cards: int = option(8, "Cards that weights are dealt out to.")
    num_generations: int = option(8, "G: trajectories for each puzzle.")
    masked: int = option(30, "K: masked positions of a puzzle.")
    max_tokens_per_pass: int = option(16384, "Tokens in one forward pass.")
    survival: float = option(0.6, "Mean length of a trajectory over the longest (assumed).")
    distinct: float = option(0.9, "Distinct over visited states (`distinct_states` logs it).")
    peak_flops: float = option(989e12, "Peak of the card, dense bfloat16.")
    utilization: float = option(0.4, "Share of it (38 to 43 % in arXiv:2407.21783, table 4).")
    link: float = option(400e9, "Bytes a second a card takes in by NVLink (of 450).")


(args,) = parse(BudgetArguments, description=__doc__)
if args.model:
    need_model("model", args.model)
with user_errors(OSError, ValueError):
    config = AutoConfig.from_pretrained(args.model) if args.model else LladaConfig()


def build(**changes: int) -> PreTrainedModel:
    """The model with other sizes, bfloat16, weights not initialized, adapters on."""
    with torch.device("meta"):
        base = LladaForMaskedLM(LladaConfig(**{**config.to_dict(), **changes})).to(torch.bfloat16)
        return add_lora(base, r=args.lora_r)


def kept(work: Callable[[], object], model: PreTrainedModel) -> list[int]:
    """Bytes of every tensor that autograd keeps for the backward pass, parameters left out."""
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    found: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            found[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = work()
    del result
    return [storage.nbytes() for storage in found.values()]


full = build()
frozen = sum(parameter.numel() for parameter in full.parameters() if not parameter.requires_grad)
trained = sum(parameter.numel() for parameter in full.parameters() if parameter.requires_grad)

words = {"vocab_size": VOCABULARY, "embedding_size": VOCABULARY, "mask_token_id": MASK}
one = build(n_layers=1, **words).to_empty(device="cpu")
x = torch.zeros(1, TOKENS, config.d_model, dtype=torch.bfloat16, requires_grad=True)
angles = torch.ones(1, 1, TOKENS, config.d_model // config.n_heads)
in_block = sum(kept(lambda: one.get_base_model().model.transformer.blocks[0](x, angles, angles, None), one)) / TOKENS

small = build(d_model=64, n_layers=1, n_heads=2, n_kv_heads=2, mlp_hidden_size=64, **words).to_empty(device="cpu")
for parameter in small.parameters():
    torch.nn.init.normal_(parameter, std=0.1)
responses = torch.full((3, 5), MASK)


def policy_pass() -> tuple[object, ...]:
    """What an update evaluates: the log-probability of one action a state, and f."""
    chosen, states = PolicyConfig(), torch.arange(3)
    scores = score_states(small, torch.ones(3, 4, dtype=torch.long), None, responses, MASK, chosen)
    definite = torch.ones(responses.shape, dtype=torch.bool)
    f = log_expected_reward_of(
        scores, definite=definite, tail=~definite, scored=~definite, answers=responses + 1, policy=chosen, lam=0.5
    )
    return scores, f, action_logprobs(scores, states, states[:, None], states[:, None], chosen)


copies = sum(size == responses.numel() * VOCABULARY * 4 for size in kept(policy_pass, small))

length = args.prompt_length + args.max_gen_length
states_in_pass = args.max_tokens_per_pass // length
tokens = states_in_pass * length
row = config.embedding_size * 4
logits = states_in_pass * args.masked * row
states = round(args.distinct * args.survival * args.puzzles * args.num_generations * args.masked)
checkpoints = tokens * config.n_layers * config.d_model * 2
head = config.embedding_size * config.d_model * 4 + (copies + 2) * logits
block = tokens * (in_block + 2 * config.mlp_hidden_size * 4)
fixed = 2 * frozen + 16 * trained
lines = [
    ("frozen weights, bfloat16", 2 * frozen),
    ("adapters: weight, gradient, two moments, fp32", 16 * trained),
    ("checkpoints: one input for each block", checkpoints),
    ("one block, recomputed, and its backward", block),
    (f"head: fp32 weight, {copies} + 2 tables of logits", head),
    ("the roll-out's states, worst case", args.puzzles * args.num_generations * args.masked * args.max_gen_length * 9),
    ("peak: weights, adapters, checkpoints, larger rest", fixed + checkpoints + max(block, head)),
]
print(f"{frozen:,} frozen and {trained:,} trained parameters; {tokens:,} tokens, {states_in_pass} states in a pass")
print(f"autograd keeps {in_block / 1e3:.0f} kB a token in a block, {row / 1e6:.2f} MB a table for each masked position")
for name, size in lines:
    print(f"{name:48s} {size / GB:7.2f} GB")

body = frozen - 2 * config.embedding_size * config.d_model
operations = (2 + 6) * states * (body * length + config.embedding_size * config.d_model * args.masked / 2)
seconds = operations / (args.peak_flops * args.utilization)
print(
    f"{states:,} distinct states a step, {operations:.2e} operations, {seconds:.0f} s at {args.utilization:.0%} of peak"
)


def dealt_out(title: str, model: PreTrainedModel) -> None:
    """The units that weights are gathered in, and what a card holds and takes in; adapters' weights are fp32."""
    apart = [list(part.parameters()) for part in units(model, head_apart=True)]
    inside = {id(parameter) for part in apart for parameter in part}
    parts = [*apart, [parameter for parameter in model.parameters() if id(parameter) not in inside]]
    sizes = [sum(parameter.numel() * parameter.element_size() for parameter in part) for part in parts]
    rows = [(p, -(-p.shape[0] // args.cards) * p[0].numel()) for part in parts for p in part]  # padded by rows
    weights = sum(mine * parameter.element_size() for parameter, mine in rows)
    states = sum(12 * mine for parameter, mine in rows if parameter.requires_grad)
    *layers, embedding, head, rest = sizes
    trained_bytes = 4 * sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    abroad = (args.cards - 1) / args.cards
    print(f"\n{title}: {len(sizes)} units on {args.cards} cards")
    shown = f"{len(layers)} layers of {layers[0] / GB:.2f} GB, embedding {embedding / GB:.2f}, head {head / GB:.2f}"
    print(f"{shown}, the rest {rest / 1e3:.0f} kB")
    again = model.get_input_embeddings().weight.requires_grad  # whether the embedding has a backward pass
    gathers = [("forward", sum(sizes)), ("backward", sum(sizes) - rest - (0 if again else embedding))]
    lines = [
        ("weights, a share", weights),
        ("gradient and two moments of what is trained, fp32", states),
        ("gathered at most: two layers, or a layer and the head", max(2 * layers[0], layers[0] + head) + rest),
        *((f"gathered in a {way} pass", abroad * size) for way, size in gathers),
        ("gradients summed in a backward pass, fp32", abroad * trained_bytes),
        ("offload_optimizer, on one card: two moments, fp32", 2 * trained_bytes),
        ("offload_model, on one card: weights and reference", sum(sizes) + (sum(sizes) if again else trained_bytes)),
    ]
    for name, size in lines:
        print(f"{name:56s} {size / GB:7.2f} GB")
    taken = abroad * (sum(size for _, size in gathers) + trained_bytes)
    print(
        f"{'an update pass takes in':56s} {taken / GB:7.2f} GB, {taken / args.link:.3f} s at {args.link / GB:.0f} GB/s"
    )


with torch.device("meta"):
    plain = LladaForMaskedLM(config)
dealt_out("full fine-tuning, fp32 weights", plain)
dealt_out(f"LoRA of rank {args.lora_r}, bfloat16 base", full)
