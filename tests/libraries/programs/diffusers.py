"""diffusers: a small UNet trained on noise, and samples by several schedulers."""
import diffusers
import torch
from program import program, summary, train


def unet():
    torch.manual_seed(0)
    return diffusers.UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, block_out_channels=(16, 32), layers_per_block=1,
        norm_num_groups=8, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"))


@program("unet_and_ddpm", 5e-4)
def unet_and_ddpm():
    model, scheduler = unet(), diffusers.DDPMScheduler(num_train_timesteps=20)
    torch.manual_seed(1)
    clean, noise = torch.randn(4, 1, 8, 8), torch.randn(4, 1, 8, 8)
    steps = torch.randint(0, 20, (4,))
    noisy = scheduler.add_noise(clean, noise, steps)
    losses = train(model, lambda: torch.nn.functional.mse_loss(model(noisy, steps).sample, noise))
    pipeline = diffusers.DDPMPipeline(model.eval(), scheduler)
    pipeline.set_progress_bar_config(disable=True)
    images = pipeline(batch_size=1, generator=torch.Generator().manual_seed(2), num_inference_steps=5,
                      output_type="np").images
    return {"training": losses, "noisy": summary(noisy), "image": [float(images.mean())]}


def sample(name):
    scheduler, model = getattr(diffusers, name)(num_train_timesteps=50), unet().eval()
    scheduler.set_timesteps(4)
    x = torch.randn(1, 1, 8, 8, generator=torch.Generator().manual_seed(3)) * scheduler.init_noise_sigma
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for t in scheduler.timesteps:
            noise = model(scheduler.scale_model_input(x, t), t).sample
            takes = "generator" in scheduler.step.__code__.co_varnames
            x = scheduler.step(noise, t, x, **({"generator": generator} if takes else {})).prev_sample
    return summary(x)


for _name in """DDIMScheduler DDPMScheduler DPMSolverMultistepScheduler EulerDiscreteScheduler
        EulerAncestralDiscreteScheduler HeunDiscreteScheduler PNDMScheduler
        UniPCMultistepScheduler""".split():
    program(_name, 5e-4)(lambda name=_name: sample(name))


@program("autoencoder", 5e-4)
def autoencoder():
    torch.manual_seed(0)
    model = diffusers.AutoencoderKL(block_out_channels=(16,), norm_num_groups=8, latent_channels=2)
    x = torch.randn(2, 3, 8, 8)
    return train(model, lambda: torch.nn.functional.mse_loss(model(x, sample_posterior=False).sample, x))
