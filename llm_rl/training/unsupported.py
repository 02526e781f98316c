"""What `TrainingArguments` offers and trainers that compute log-probabilities themselves do not support."""

import torch
from transformers import TrainingArguments


def refuse_without_float64(device: torch.device) -> None:
    """Raises `ValueError` for a device that lacks the precision in which draws, rewards and metrics are added up."""
    if device.type == "mps":
        raise ValueError(
            "float64, in which draws, rewards and metrics are added up, does not exist on mps; use the CPU"
        )


def refuse_unsupported(args: TrainingArguments, where: str) -> None:
    """Raises `ValueError` for an option that would do nothing, or something else than it says; it names the option.

    `where`: what does not support it, such as "by DPOTrainer".
    """
    if args.parallelism_config is not None:
        raise ValueError(
            f"parallelism_config is not supported {where}: for sequence or tensor parallel training use verl "
            "(docs/raro.md)"
        )
    unsupported = {
        "torch_compile": args.torch_compile,
        "include_num_input_tokens_seen": args.include_num_input_tokens_seen not in (False, "no"),
        "auto_find_batch_size": args.auto_find_batch_size,
        "ignore_data_skip": args.ignore_data_skip,
        "train_sampling_strategy": args.train_sampling_strategy != "random",
        "label_smoothing_factor": args.label_smoothing_factor != 0,
        "neftune_noise_alpha": args.neftune_noise_alpha is not None,
        # Evaluation is ours: there are no model outputs to gather.
        "bf16_full_eval": args.bf16_full_eval,
        "fp16_full_eval": args.fp16_full_eval,
        "prediction_loss_only": args.prediction_loss_only,
        "eval_accumulation_steps": args.eval_accumulation_steps is not None,
        "batch_eval_metrics": args.batch_eval_metrics,
        "include_for_metrics": bool(args.include_for_metrics),
        "label_names": args.label_names is not None,
    }
    for name, asked in unsupported.items():
        if asked:
            raise ValueError(f"{name}={getattr(args, name)!r} is not supported {where}; leave it out")
    for name in ("split_batches", "dispatch_batches"):
        if getattr(args.accelerator_config, name):
            raise ValueError(f"accelerator_config.{name} is not supported {where}; leave it out")
