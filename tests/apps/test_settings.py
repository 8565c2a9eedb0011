"""The options of train_cnn.py, on the command line and in files."""

import json

import pytest
import settings

from needle import optim


def parse(*arguments):
    return settings.parse(list(map(str, arguments)), "a program")[0]


def test_defaults_go_by_the_data():
    args = parse()
    assert (args.data, args.epochs, args.batch_size, args.augment, args.lr) == ("digits", 30, 64, [], 0.003)
    args = parse("--data", "cifar10", "--epochs", 2, "--optimizer", "sgd")
    assert (args.epochs, args.batch_size, args.augment, args.lr) == (2, 128, ["crop", "flip"], 0.1)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--epochs", "0"], "0 is not above 0"),
        (["--lr", "nan"], "nan is not above 0"),
        (["--lr", "inf"], "inf is not finite"),
        (["--seed", "-1"], "-1 is not in 0..4294967295"),
        (["--batch-size", "many"], "invalid positive int value: 'many'"),
        (["--schedule", "circle"], "invalid choice: 'circle'"),
        (["--augment", "crop", "rotate"], "invalid choice: 'rotate'"),
        (["--validation", "1"], "1 is not in 0..1"),
        (["--epoch", "3"], "there is no option --epoch (did you mean --epochs?)"),
        (["--wieght-decay=1"], "there is no option --wieght-decay (did you mean --weight-decay?)"),
        (["--zzz"], "there is no option --zzz\n"),
        (["--patience", "2"], "--patience needs --validation"),
    ],
)
def test_wrong_options_are_explained(options, fault, capsys):
    with pytest.raises(SystemExit, match="2"):
        parse(*options)
    assert fault in capsys.readouterr().err


@pytest.mark.parametrize("name", ["run.toml", "run.json"])
def test_a_file_of_options(tmp_path, name):
    path = tmp_path / name
    if path.suffix == ".toml":
        path.write_text('data = "mnist"\nlabel_smoothing = 0.0\nlr = 1e-2\naugment = ["flip"]\nreport = false\n')
    else:
        path.write_text(json.dumps({"data": "mnist", "label-smoothing": 0.0, "lr": 1e-2, "augment": ["flip"],
                                    "report": False}))  # fmt: skip
    args = parse("--lr", 0.5, "--config", path)
    assert (args.data, args.label_smoothing, args.augment, args.report) == ("mnist", 0.0, ["flip"], False)
    assert args.lr == 0.5, "the command line goes before the file"


def test_every_flag_may_stand_in_a_file(tmp_path):
    parser = settings.make_parser("a program")
    for action in parser._actions:
        if action.dest not in ("help", "config"):
            (tmp_path / "a.json").write_text(json.dumps({action.dest: 1}))
            assert settings.options_of(tmp_path / "a.json", parser)[0].startswith(f"--{action.dest.replace('_', '-')}")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("batchsize = 3", "there is no option --batchsize (did you mean --batch-size?)"),
        ("lr = -1.0", "argument --lr: -1.0 is not above 0"),
        ("lr = ", "a.toml: Invalid value"),
        ("[train]\nlr = 1", "there is no option --train"),
        ("[lr]\nvalue = 1", "invalid positive float value"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path, content, fault, capsys):
    (tmp_path / "a.toml").write_text(content)
    with pytest.raises(SystemExit, match="2"):
        parse("--config", tmp_path / "a.toml")
    error = capsys.readouterr().err
    assert fault in error


def test_a_file_that_is_no_table(tmp_path, capsys):
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(SystemExit, match="2"):
        parse("--config", tmp_path / "a.json")
    assert "expected a table of options, got a list" in capsys.readouterr().err


def test_optimizers_get_their_settings():
    from needle import nn

    layer = nn.Linear(2, 2)
    sgd = settings.make_optimizer(parse("--optimizer", "sgd", "--weight-decay", 0.25), layer.parameters())
    assert isinstance(sgd, optim.SGD) and (sgd.lr, sgd.weight_decay, sgd.nesterov) == (0.1, 0.25, True)
    assert settings.make_optimizer(parse("--optimizer", "adamw"), layer.parameters()).weight_decay == 0.01
