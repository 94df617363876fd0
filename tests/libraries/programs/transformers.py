"""transformers: models of tiny configurations, generation, files, and Trainer."""
import tempfile

import torch
import transformers
from program import program, summary, train

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 64, "vocab_size": 99, "max_position_embeddings": 64}
GROUPED = {**SMALL, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
IMAGE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 64, "image_size": 32, "patch_size": 8, "num_labels": 5}
SEQUENCE = {"vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
            "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64, "max_position_embeddings": 64, "pad_token_id": 1,
            "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2,
            "forced_eos_token_id": None}

MODELS = {  # name: (class of models, configuration)
    "albert": ("MaskedLM", {**SMALL, "embedding_size": 16}),
    "bert": ("MaskedLM", SMALL),
    "big_bird": ("MaskedLM", {**SMALL, "attention_type": "original_full"}),
    "deberta": ("MaskedLM", SMALL),
    "deberta-v2": ("MaskedLM", {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "distilbert": ("MaskedLM", {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4,
                                "hidden_dim": 64, "max_position_embeddings": 64}),
    "electra": ("MaskedLM", {**SMALL, "embedding_size": 16}),
    "mpnet": ("MaskedLM", SMALL),
    "roberta": ("MaskedLM", SMALL),
    "bloom": ("CausalLM", {"vocab_size": 99, "hidden_size": 32, "n_layer": 2, "n_head": 4,
                           "pad_token_id": 0}),
    "cohere": ("CausalLM", GROUPED),
    "falcon": ("CausalLM", {**SMALL, "pad_token_id": 0}),
    "gemma": ("CausalLM", {**GROUPED, "head_dim": 8}),
    "gemma2": ("CausalLM", {**GROUPED, "head_dim": 8}),
    "gpt2": ("CausalLM", {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4,
                          "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}),
    "gpt_neo": ("CausalLM", {"vocab_size": 99, "hidden_size": 32, "num_layers": 2, "num_heads": 4,
                             "attention_types": [[["global", "local"], 1]], "window_size": 4,
                             "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2}),
    "gpt_neox": ("CausalLM", {**SMALL, "bos_token_id": 1, "eos_token_id": 2}),
    "gptj": ("CausalLM", {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4,
                          "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2}),
    "granite": ("CausalLM", GROUPED),
    "llama": ("CausalLM", GROUPED),
    "mamba": ("CausalLM", {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2,
                           "state_size": 8, "pad_token_id": 0}),
    "mistral": ("CausalLM", {**GROUPED, "sliding_window": 8}),
    "mixtral": ("CausalLM", {**GROUPED, "num_local_experts": 4}),
    "olmo": ("CausalLM", GROUPED),
    "opt": ("CausalLM", {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "ffn_dim": 64,
                         "num_attention_heads": 4, "max_position_embeddings": 64,
                         "word_embed_proj_dim": 32, "pad_token_id": 1}),
    "phi": ("CausalLM", {**SMALL, "pad_token_id": 0}),
    "phi3": ("CausalLM", GROUPED),
    "qwen2": ("CausalLM", GROUPED),
    "qwen3": ("CausalLM", {**GROUPED, "head_dim": 8}),
    "stablelm": ("CausalLM", GROUPED),
    "bart": ("Seq2SeqLM", SEQUENCE),
    "t5": ("Seq2SeqLM", {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2,
                         "num_heads": 4, "decoder_start_token_id": 0}),
    "convnext": ("ImageClassification", {"hidden_sizes": [8, 16, 32, 32], "depths": [1, 1, 2, 1],
                                         "image_size": 32, "num_labels": 5}),
    "dinov2": ("ImageClassification", IMAGE),
    "resnet": ("ImageClassification", {"embedding_size": 8, "hidden_sizes": [8, 16, 16, 32],
                                       "depths": [1, 1, 1, 1], "num_labels": 5}),
    "swin": ("ImageClassification", {"image_size": 32, "patch_size": 4, "embed_dim": 8,
                                     "depths": [1, 1], "num_heads": [2, 2], "window_size": 4,
                                     "num_labels": 5}),
    "vit": ("ImageClassification", IMAGE),
    "wav2vec2": ("AudioClassification", {
        **SMALL, "conv_dim": (16, 16), "conv_stride": (4, 4), "conv_kernel": (8, 4),
        "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0, "num_labels": 5}),
}


def make(name):
    """The model of a name, from seed 0."""
    kind, options = MODELS[name]
    config = transformers.AutoConfig.for_model(name, **options)
    torch.manual_seed(0)
    return getattr(transformers, f"AutoModelFor{kind}").from_config(config)


def inputs_of(name):
    kind, _ = MODELS[name]
    torch.manual_seed(1)
    if kind == "ImageClassification":
        return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([1, 3])}
    if kind == "AudioClassification":
        return {"input_values": torch.randn(2, 400), "labels": torch.tensor([1, 3])}
    ids = torch.randint(3, 99, (2, 12))
    return {"input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)}


def train_model(name):
    model, inputs = make(name), inputs_of(name)
    with torch.no_grad():
        logits = model.eval()(**inputs).logits
    torch.manual_seed(2)
    losses = train(model.train(), lambda: model(**inputs).loss)
    return {"parameters": [sum(p.numel() for p in model.parameters())], "logits": summary(logits),
            "training": losses}


for _name in MODELS:
    program(f"train_{_name}", 2e-4)(lambda name=_name: train_model(name))


# --- generation ---

def generate(name):
    model = make(name).eval()
    ids = inputs_of(name)["input_ids"]
    settings = {"max_new_tokens": 8, "pad_token_id": 0}
    greedy = model.generate(ids, do_sample=False, **settings)
    beams = model.generate(ids, do_sample=False, num_beams=3, **settings)
    torch.manual_seed(3)
    drawn = model.generate(ids, do_sample=True, top_k=20, top_p=0.9, **settings)
    return {"greedy": greedy.tolist(), "beams": beams.tolist(), "drawn": drawn.tolist()}


for _name in ("gpt2", "llama", "mistral", "qwen2", "bart", "t5"):
    program(f"generate_{_name}")(lambda name=_name: generate(name))


# --- files ---

@program("save_and_load")
def save_and_load():
    out = {}
    for name in ("bert", "gpt2", "t5", "vit"):
        model, inputs = make(name).eval(), inputs_of(name)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            again = type(model).from_pretrained(folder).eval()
            half = type(model).from_pretrained(folder, dtype=torch.bfloat16)
        with torch.no_grad():
            same = torch.equal(model(**inputs).logits, again(**inputs).logits)
        out[name] = [same, str(half.dtype), len(again.state_dict())]
    return out


# --- Trainer ---

class Sentences(torch.utils.data.Dataset):
    def __init__(self):
        torch.manual_seed(4)
        self.ids = torch.randint(3, 99, (24, 10))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


@program("trainer", 2e-4)
def trainer():
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, num_train_epochs=2, per_device_train_batch_size=4, logging_steps=3,
            learning_rate=1e-3, report_to=[], use_cpu=True, save_steps=6, seed=5,
            disable_tqdm=True, warmup_steps=2, gradient_accumulation_steps=2)
        runner = transformers.Trainer(model=make("gpt2"), args=arguments, train_dataset=Sentences(),
                                      eval_dataset=Sentences())
        runner.train()
        losses = [entry["loss"] for entry in runner.state.log_history if "loss" in entry]
        evaluated = runner.evaluate()["eval_loss"]
        again = transformers.Trainer(model=make("gpt2"), args=arguments, train_dataset=Sentences())
        again.train(resume_from_checkpoint=f"{folder}/checkpoint-6")
    weights = [torch.cat([p.flatten() for p in m.model.parameters()]) for m in (runner, again)]
    return {"losses": losses, "evaluated": evaluated, "weights": summary(weights[0]),
            "resumed": summary(weights[1])}
