"""timm: models of every family on small images, and its optimizers."""
import timm
import timm.optim
import torch
from program import gradient_size, program, summary, train

SIZED = {"img_size": 64}
MODELS = {
    **dict.fromkeys("""
resnet10t resnet18 resnet26d resnet50 resnext26ts seresnext26t_32x4d seresnet18 ecaresnet26t wide_resnet50_2
resnetv2_18 resnetrs50 skresnet18 res2net50_26w_4s resnest14d gcresnext26ts bat_resnext26ts halonet26t
lambda_resnet26t botnet26t_256 sebotnet33ts_256 lamhalobotnet50ts_256 nf_resnet26 nf_regnet_b0 dm_nfnet_f0
eca_nfnet_l0 densenet121 vgg11 vgg11_bn darknet17 darknet21 cspresnet50 cspdarknet53 cs3darknet_focus_s dla34
dla60_res2net dpn48b dpn68 hrnet_w18_small inception_v4 inception_next_tiny xception41 regnetx_002 regnety_002
regnetz_005 repvgg_a0 mobileone_s0 rexnetr_100 rexnet_100 ghostnet_050 ghostnetv2_100 mobilenetv1_100
mobilenetv2_050 mobilenetv3_small_050 mobilenetv3_large_075 mobilenetv4_conv_small hardcorenas_a
mnasnet_small semnasnet_050 spnasnet_100 fbnetc_100 fbnetv3_b efficientnet_lite0 efficientnet_b0
efficientnetv2_rw_t tf_efficientnetv2_b0 tinynet_e lcnet_035 mixnet_s convnext_atto convnextv2_atto
convmixer_768_32 edgenext_xx_small fastvit_t8 repvit_m0_9 starnet_s1 hgnetv2_b0 vovnet39a ese_vovnet19b_dw
selecsls42 tresnet_m poolformer_s12 caformer_s18 mobilevit_xxs mobilevitv2_050 efficientformer_l1
focalnet_tiny_srf pvt_v2_b0 nextvit_small rdnet_tiny gmixer_12_224 resmlp_12_224 mixer_s32_224 visformer_tiny
levit_128s tiny_vit_5m_224 coat_lite_tiny crossvit_tiny_240 xcit_nano_12_p16_224
""".split(), {}),
    **dict.fromkeys("""
vit_tiny_patch16_224 deit_tiny_patch16_224 deit3_small_patch16_224 cait_xxs24_224 beit_base_patch16_224
eva02_tiny_patch14_224 swin_tiny_patch4_window7_224 pit_ti_224 convit_tiny mvitv2_tiny hiera_tiny_224
""".split(), SIZED)}
FIXED = {  # sizes that the architecture prescribes
    "gmixer_12_224": 224, "resmlp_12_224": 224, "mixer_s32_224": 224, "visformer_tiny": 224,
    "levit_128s": 224, "tiny_vit_5m_224": 224, "coat_lite_tiny": 224, "crossvit_tiny_240": 240,
    "xcit_nano_12_p16_224": 224, "efficientformer_l1": 224, "pit_ti_224": 224, "hiera_tiny_224": 224,
    "mvitv2_tiny": 224, "convit_tiny": 224, "nextvit_small": 128, "inception_v4": 128,
    "swin_tiny_patch4_window7_224": 224, "eva02_tiny_patch14_224": 224, "cait_xxs24_224": 224,
    "botnet26t_256": 256, "sebotnet33ts_256": 256, "lamhalobotnet50ts_256": 256, "halonet26t": 256,
    "lambda_resnet26t": 256, "bat_resnext26ts": 256, "edgenext_xx_small": 128, "fastvit_t8": 128}


def run_model(name, options):
    size = FIXED.get(name, 64)
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=10, **(options if size == 64 else {}))
    torch.manual_seed(1)
    x, labels = torch.randn(2, 3, size, size), torch.tensor([3, 7])
    with torch.no_grad():
        before = summary(model.eval()(x))
    torch.manual_seed(2)
    output = model.train()(x)
    loss = torch.nn.functional.cross_entropy(output, labels)
    loss.backward()
    return {"parameters": [sum(p.numel() for p in model.parameters())], "output": before,
            "loss": [loss.item()], "gradient": [gradient_size(model)]}


for _name, _options in MODELS.items():
    program(_name, 1e-3)(lambda name=_name, options=_options: run_model(name, options))


# --- optimizers ---

def run_optimizer(name):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(4 * 36, 5))
    optimizer = timm.optim.create_optimizer_v2(model, opt=name, lr=1e-2, weight_decay=0.01)
    x, labels, losses = torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 2, 3]), []
    for _ in range(4):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        loss.backward(create_graph=name == "adahessian")
        optimizer.step()
        losses.append(loss.item())
    return [*losses, *summary(model[3].weight)]


for _name in """sgd nesterov momentum adam adamw nadam nadamw radam adamax adabelief radabelief adadelta
        adagrad adafactor adopt adan lamb laprop lars lion lookahead_sgd madgrad mars novograd
        rmsprop rmsproptf sgdp adamp sgdw""".split():
    program(f"optimizer_{_name}")(lambda name=_name: run_optimizer(name))


@program("schedule")
def schedule():
    from timm.scheduler import create_scheduler_v2
    rates = []
    for name in ("cosine", "tanh", "step", "multistep", "poly"):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        scheduler, _ = create_scheduler_v2(optimizer, sched=name, num_epochs=6, warmup_epochs=2,
                                           decay_epochs=2, decay_milestones=[3, 5])
        for epoch in range(6):
            scheduler.step(epoch)
            rates.append(float(optimizer.param_groups[0]["lr"]))
    return rates


@program("ema_and_loss")
def ema_and_loss():
    from timm.loss import AsymmetricLossMultiLabel, LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
    from timm.utils import ModelEmaV3, accuracy
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    ema = ModelEmaV3(model, decay=0.9)
    x, labels = torch.randn(8, 4), torch.arange(8) % 3
    losses = train(model, lambda: LabelSmoothingCrossEntropy(0.1)(model(x), labels), lr=0.1)
    ema.update(model)
    soft = torch.nn.functional.one_hot(labels, 3).float()
    return [*losses, *summary(ema.module.weight), SoftTargetCrossEntropy()(model(x), soft).item(),
            AsymmetricLossMultiLabel()(model(x), soft).item(),
            *[float(a) for a in accuracy(model(x), labels, topk=(1, 2))]]
