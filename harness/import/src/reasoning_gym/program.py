"""Generates entries of Reasoning Gym: reads one JSON request, prints one JSON object per line."""
import json
import sys


def say(**row):
    print(json.dumps(row), flush=True)


def main():
    request = json.load(sys.stdin)
    try:
        from importlib.metadata import version

        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        say(missing=str(error))
        return
    base = reasoning_gym.dataset.ProceduralDataset.score_answer
    known = {name: entry[0].score_answer is not base for name, entry in DATASETS.items()}
    say(version=version("reasoning-gym"), known=known)
    for wanted in request["datasets"]:
        name = wanted["name"]
        if name not in known:
            continue
        try:
            made = reasoning_gym.create_dataset(
                name, size=request["size"], seed=request["seed"], **wanted["settings"]
            )
            for index in range(request["size"]):
                entry = made[index]
                score = made.score_answer(entry["answer"], entry)
                say(dataset=name, question=entry["question"], answer=str(entry["answer"]), score=float(score))
        except Exception as error:
            say(dataset=name, error=f"{type(error).__name__}: {error}")


main()
