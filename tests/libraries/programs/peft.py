"""peft: LoRA and its relatives on a tiny model."""
import tempfile

import peft
import torch
import transformers
from program import program, summary, train


def base():
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2))


def tokens():
    torch.manual_seed(1)
    return torch.randint(3, 99, (2, 10))


CONFIGURATIONS = {
    "lora": lambda: peft.LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], lora_dropout=0.0),
    "rslora": lambda: peft.LoraConfig(r=4, target_modules=["c_attn"], use_rslora=True),
    "dora": lambda: peft.LoraConfig(r=4, target_modules=["c_attn"], use_dora=True),
    "pissa": lambda: peft.LoraConfig(r=4, target_modules=["c_attn"], init_lora_weights="pissa"),
    "adalora": lambda: peft.AdaLoraConfig(target_modules=["c_attn"], total_step=10),
    "ia3": lambda: peft.IA3Config(target_modules=["c_attn", "c_fc"], feedforward_modules=["c_fc"]),
    "prompt": lambda: peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4),
}


def adapt(name):
    ids = tokens()
    torch.manual_seed(2)
    model = peft.get_peft_model(base(), CONFIGURATIONS[name]())
    losses = train(model, lambda: model(input_ids=ids, labels=ids).loss, lr=1e-2)
    model.eval()
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        before = model(input_ids=ids).logits
        model.save_pretrained(folder)
        again = peft.PeftModel.from_pretrained(base(), folder).eval()
        same = torch.allclose(before, again(input_ids=ids).logits, atol=1e-5)
        merged = summary(model.merge_and_unload()(input_ids=ids).logits) if name == "lora" else []
    return {"training": losses, "trainable": model.get_nb_trainable_parameters()
            if hasattr(model, "get_nb_trainable_parameters") else [], "output": summary(before),
            "same": same, "merged": merged}


for _name in CONFIGURATIONS:
    program(_name, 5e-4)(lambda name=_name: adapt(name))
