"""transformers_zoo - small models of the transformers package's architectures, from configurations.

Nothing is downloaded: the weights are random, the sizes are small and no dropout is left.
"""
import torch
import transformers as tf

WORDS, WIDTH, HEADS, LENGTH = 101, 64, 4, 16

# Names that the configurations have for the same sizes.
SIZES = {
    "vocab_size": WORDS, "hidden_size": WIDTH, "d_model": WIDTH, "n_embd": WIDTH, "dim": WIDTH,
    "embedding_size": WIDTH, "d_embed": WIDTH, "word_embed_proj_dim": WIDTH,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "encoder_layers": 2,
    "decoder_layers": 2, "num_decoder_layers": 2,
    "num_attention_heads": HEADS, "n_head": HEADS, "n_heads": HEADS, "num_heads": HEADS,
    "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS,
    "intermediate_size": 2 * WIDTH, "d_ff": 2 * WIDTH, "n_inner": 2 * WIDTH, "d_inner": 2 * WIDTH,
    "encoder_ffn_dim": 2 * WIDTH, "decoder_ffn_dim": 2 * WIDTH, "ffn_dim": 2 * WIDTH,
    "hidden_dim": 2 * WIDTH, "d_kv": WIDTH // HEADS, "d_head": WIDTH // HEADS,
    "head_dim": WIDTH // HEADS, "num_key_value_heads": 2, "rotary_dim": WIDTH // HEADS,
    "image_size": 32, "patch_size": 8, "num_mel_bins": 8, "max_source_positions": 8,
    "num_local_experts": 4, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "sliding_window": None,
}

# architecture: (configuration, model, kind of batch, sizes that differ)
ARCHITECTURES = {
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", "words", {}),
    "llama": ("LlamaConfig", "LlamaForCausalLM", "words", {}),
    "mistral": ("MistralConfig", "MistralForCausalLM", "words", {}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", "words", {}),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", "words", {}),
    "phi": ("PhiConfig", "PhiForCausalLM", "words", {}),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", "words", {}),
    "gptj": ("GPTJConfig", "GPTJForCausalLM", "words", {"rotary_dim": 8}),
    "opt": ("OPTConfig", "OPTForCausalLM", "words", {}),
    "bloom": ("BloomConfig", "BloomForCausalLM", "words", {}),
    "falcon": ("FalconConfig", "FalconForCausalLM", "words", {}),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM", "words", {}),
    "bert": ("BertConfig", "BertForMaskedLM", "words", {}),
    "roberta": ("RobertaConfig", "RobertaForMaskedLM", "words", {}),
    "distilbert": ("DistilBertConfig", "DistilBertForMaskedLM", "words", {}),
    "electra": ("ElectraConfig", "ElectraForMaskedLM", "words", {}),
    "albert": ("AlbertConfig", "AlbertForMaskedLM", "words", {}),
    "mpnet": ("MPNetConfig", "MPNetForMaskedLM", "words", {}),
    "deberta_v2": ("DebertaV2Config", "DebertaV2ForMaskedLM", "words", {}),
    "t5": ("T5Config", "T5ForConditionalGeneration", "words", {}),
    "bart": ("BartConfig", "BartForConditionalGeneration", "words", {}),
    "whisper": ("WhisperConfig", "WhisperForConditionalGeneration", "speech", {}),
    "vit": ("ViTConfig", "ViTForImageClassification", "image", {}),
    "mamba": ("MambaConfig", "MambaForCausalLM", "words", {}),
}


class Labelled(torch.nn.Module):
    """The model of a batch (input, labels), by the names that the model gives them."""

    def __init__(self, net, name):
        super().__init__()
        self.net, self.name = net, name

    def forward(self, x, labels):
        return self.net(**{self.name: x, "labels": labels}).loss


def without_dropout(config):
    for name, value in vars(config).items():
        if isinstance(value, float) and ("drop" in name or name in ("mask_time_prob",)):
            setattr(config, name, 0.0)
    return config


def build(name, batch, layers=None, length=LENGTH, **own):
    """(model that returns its loss, batch): small, or of the architecture's own width with a number
    of layers, but for `own` sizes."""
    config_name, model_name, kind, sizes = ARCHITECTURES[name]
    make = getattr(tf, config_name)
    known = set(make().to_dict()) | set(getattr(make, "attribute_map", {}))
    chosen = {**SIZES, **sizes} if layers is None else {
        **{key: layers for key in SIZES if "layer" in key}, **own}
    config = without_dropout(make(**{key: n for key, n in chosen.items() if key in known}))
    config.use_cache = False
    if config.is_encoder_decoder:
        config.decoder_start_token_id = 0
    net = getattr(tf, model_name)(config)
    words = torch.randint(3, WORDS, (batch, length))
    if kind == "speech":
        return Labelled(net, "input_features"), (torch.randn(batch, 8, 16), words)
    if kind == "image":
        return Labelled(net, "pixel_values"), (torch.randn(batch, 3, 32, 32),
                                               torch.randint(0, 2, (batch,)))
    return Labelled(net, "input_ids"), (words, torch.randint(3, WORDS, (batch, length)))
