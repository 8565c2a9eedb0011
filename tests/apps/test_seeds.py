"""The accuracy that train_cnn.py's defaults reach, over seeds."""

import pytest
import seeds


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_seed_and_the_summary_are_printed(capsys):
    accuracies = seeds.main(["--seeds", "2", "--epochs", "1"])
    first, second, summary = capsys.readouterr().out.splitlines()
    for seed, line in enumerate((first, second)):
        assert line.startswith(f"seed {seed}: {accuracies[seed]:.2%} in ")
    assert summary == f"mean {sum(accuracies) / 2:.2%}, least {min(accuracies):.2%}"


@pytest.mark.slow
@pytest.mark.timeout(1800)  # two minutes on an idle machine
def test_the_defaults_learn_the_digits_with_ten_seeds():
    accuracies = seeds.main([])
    assert len(accuracies) == 10
    assert accuracies[0] >= 0.985 and min(accuracies) >= 0.98 and sum(accuracies) / 10 >= 0.992
