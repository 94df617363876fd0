"""pytorch/examples, unmodified, on small data."""
import checkout
from program import program

NUMBER = r"(-?\d+\.\d+(?:e-?\d+)?)"


def train_digits(part, *arguments):
    with checkout.copied("examples", part) as folder:
        checkout.write_mnist(folder.parent / "data")
        return checkout.run(folder, "main.py", "--epochs", 2, "--batch-size", 32,
                            "--log-interval", 1, *arguments)


@program("mnist", 2e-3)
def mnist():
    output = train_digits("mnist", "--no-accel")
    return {"losses": checkout.numbers(output, rf"Loss: {NUMBER}"),
            "tests": checkout.numbers(output, rf"Average loss: {NUMBER}")}


@program("vae", 2e-3)
def vae():
    output = train_digits("vae", "--no-accel")
    return {"losses": checkout.numbers(output, rf"Loss: {NUMBER}"),
            "tests": checkout.numbers(output, rf"Test set loss: {NUMBER}")}


@program("mnist_rnn", 2e-3)
def mnist_rnn():
    output = train_digits("mnist_rnn")
    return {"losses": checkout.numbers(output, rf"Loss: {NUMBER}"),
            "tests": checkout.numbers(output, rf"Average loss: {NUMBER}")}


@program("siamese_network")
def siamese_network():
    """The script draws pairs by Python's generator without seeding it, so the results vary."""
    output = train_digits("siamese_network", "--no-accel", "--dry-run")
    return {"batches": len(checkout.numbers(output, rf"Loss: {NUMBER}"))}


@program("mnist_hogwild")
def mnist_hogwild():
    """Its processes write the same weights without locks, so the results vary."""
    output = train_digits("mnist_hogwild")
    losses = checkout.numbers(output, rf"Loss: {NUMBER}")
    return {"batches": len(losses), "finite": all(0 < loss < 10 for loss in losses),
            "tests": len(checkout.numbers(output, rf"Average loss: {NUMBER}"))}


@program("time_sequence_prediction", 1e-3)
def time_sequence_prediction():
    with checkout.copied("examples", "time_sequence_prediction") as folder:
        made = (folder / "generate_sine_wave.py").read_text()
        (folder / "generate_small.py").write_text(
            made.replace("L = 1000", "L = 60").replace("N = 100", "N = 12"))
        checkout.run(folder, "generate_small.py")
        # its data file is a pickled NumPy array, which torch.load refuses since 2.6
        output = checkout.run(folder, "train.py", "--steps", 1, TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1")
    return {"losses": checkout.numbers(output, rf"loss: {NUMBER}")[:8]}


def language_model(name, *arguments):
    with checkout.copied("examples", "word_language_model") as folder:
        data = folder / "small"
        data.mkdir()
        for i, part in enumerate(("train", "valid", "test")):
            (data / f"{part}.txt").write_text(checkout.text(3000 if part == "train" else 600, i))
        output = checkout.run(folder, "main.py", "--data", data, "--model", name, "--epochs", 2,
                              "--emsize", 32, "--nhid", 32, "--log-interval", 1, "--lr", 2,
                              *arguments)
        drawn = checkout.run(folder, "generate.py", "--data", data, "--words", 20)
    return {"losses": checkout.numbers(output, r"loss +(\d+\.\d+)"), "generated": len(drawn) > 0}


for _name in ("RNN_TANH", "RNN_RELU", "LSTM", "GRU", "Transformer"):
    program(f"word_language_model_{_name}", 5e-3)(lambda name=_name: language_model(name))
program("word_language_model_tied", 5e-3)(lambda: language_model("LSTM", "--tied"))


def write_cora(folder):
    import numpy
    random = numpy.random.RandomState(0)
    folder.mkdir()
    kinds = random.randint(0, 3, 1700)
    words = (random.rand(1700, 30) < 0.1 + 0.5 * (numpy.arange(30) % 3 == kinds[:, None])).astype(int)
    (folder / "cora.content").write_text("".join(
        f"{100 + i} {' '.join(map(str, row))} kind{kinds[i]}\n" for i, row in enumerate(words)))
    pairs = {(a, b) for a, b in random.randint(0, 1700, (4000, 2)) if a != b}
    (folder / "cora.cites").write_text("".join(
        f"{100 + a} {100 + b}\n" for a, b in sorted(pairs)))


@program("gat", 5e-3)
def gat():
    with checkout.copied("examples", "gat") as folder:
        write_cora(folder / "cora")
        output = checkout.run(folder, "main.py", "--no-accel", "--epochs", 3, "--val-every", 1,
                              "--hidden-dim", 8, "--num-heads", 2)
    return {"losses": checkout.numbers(output, rf"[Ll]oss:? *{NUMBER}")}


def reinforce(script):
    """Runs 20 episodes at most; the script itself runs until the pole is balanced."""
    with checkout.copied("examples", "reinforcement_learning") as folder:
        text = (folder / script).read_text()
        (folder / "short.py").write_text(text.replace("in count(1):", "in range(1, 21):"))
        output = checkout.run(folder, "short.py", "--seed", 543, "--log-interval", 1)
    return {"rewards": checkout.numbers(output, rf"Last reward: +{NUMBER}")}


program("reinforce")(lambda: reinforce("reinforce.py"))
program("actor_critic")(lambda: reinforce("actor_critic.py"))
