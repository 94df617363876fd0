"""Names of torch._C that are written in Python."""
import io

import pytest

import cresset as torch

keys = torch._C.DispatchKey


def test_names_are_found_once_and_others_are_absent():
    assert torch._C.DispatchKeySet is torch._C.DispatchKeySet
    assert not hasattr(torch._C, "no_such_name")
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        torch._C.no_such_name


def test_sets_of_keys():
    both = torch._C.DispatchKeySet(keys.CPU) | torch._C.DispatchKeySet(keys.AutocastCPU)
    assert both.has(keys.CPU) and not both.has(keys.CUDA)
    assert both.remove(keys.CPU) == torch._C.DispatchKeySet(keys.AutocastCPU)
    assert str(keys.CPU) == "DispatchKey.CPU" and both.add(keys.CUDA) - both == (
        torch._C.DispatchKeySet(keys.CUDA))
    assert len({both, both.add(keys.CPU), both.add(keys.Meta)}) == 2


def test_autocast_is_excluded_inside_a_guard():
    cpu = torch._C.DispatchKeySet(keys.AutocastCPU) | torch._C.DispatchKeySet(keys.AutocastXPU)
    x = torch.ones(2, 2)
    with torch.autocast("cpu"):
        with torch._C._ExcludeDispatchKeyGuard(cpu):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16
    with torch._C._ExcludeDispatchKeyGuard(cpu):
        assert not torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled("cpu")


def test_other_keys_cannot_be_excluded():
    with pytest.raises(RuntimeError, match="not DispatchKeySet\\(CPU\\)"):
        torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(keys.CPU))


@pytest.fixture(params=["path", "file"])
def reader(request, tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"a": torch.arange(6.0), "b": torch.ones(2, dtype=torch.int8)}, path)
    return torch.PyTorchFileReader(str(path) if request.param == "path"
                                   else io.BytesIO(path.read_bytes())), path


def test_records_of_a_checkpoint(reader):
    reader, path = reader
    names = reader.get_all_records()
    assert {"data.pkl", "version", "data/0", "data/1"} <= set(names)
    assert reader.has_record("data.pkl") and not reader.has_record("nothing")
    assert reader.get_record("version") == b"3\n" and reader.get_record_size("data/0") == 24
    assert reader.get_storage_from_record("data/0", 6, torch.float32).tolist() == [0, 1, 2, 3, 4, 5]
    at = reader.get_record_offset("data/0")
    assert path.read_bytes()[at:at + 24] == reader.get_record("data/0")
    assert reader.get_record_header_offset("data/0") < at
    assert isinstance(reader.serialization_id(), str)


def test_what_a_reader_refuses(reader, tmp_path):
    with pytest.raises(RuntimeError, match="failed locating file nothing: file not found"):
        reader[0].get_record("nothing")
    with pytest.raises(RuntimeError, match="24 bytes, not 7 elements of torch.float32"):
        reader[0].get_storage_from_record("data/0", 7, torch.float32)
    with pytest.raises(RuntimeError, match="not a ZIP archive"):
        torch.PyTorchFileReader(io.BytesIO(b"xx"))
    with pytest.raises(RuntimeError, match="errno 2 on fopen: No such file"):
        torch.PyTorchFileReader(str(tmp_path / "nowhere"))


def test_progress_is_shown_like_tqdm(capsys):
    from cresset.hub import _Faketqdm
    assert list(_Faketqdm([5, 6])) == [5, 6]
    with _Faketqdm(total=4, unit="B", unit_scale=True) as bar:
        bar.update(1)
        bar.update()
    with _Faketqdm(total=4, disable=True) as silent:
        silent.update(3)
    assert capsys.readouterr().err == "\r50.0%\r100.0%\n\r25.0%\r50.0%\n"


def test_earlier_names_of_downloads_and_names_for_annotations():
    from cresset.utils import model_zoo
    assert model_zoo.load_url is torch.hub.load_state_dict_from_url and callable(model_zoo.tqdm)
    for names in (torch.serialization.MAP_LOCATION, torch.types.FileLike):
        assert str in names.__args__


def test_questions_about_compilation():
    from cresset._dynamo import eval_frame, utils
    assert utils.is_compile_supported("cpu") and not utils.is_compile_supported("cuda")
    assert eval_frame.is_dynamo_supported()
    assert eval_frame.OptimizedModule is torch._dynamo.OptimizedModule
    assert isinstance(torch.compile(torch.nn.Linear(1, 1)), eval_frame.OptimizedModule)


def test_functions_that_are_scripted_while_tracing_stay_functions():
    called = torch.jit._script_if_tracing(len)
    assert called.__name__ == "len" and called([1, 2]) == 2


def test_streams_of_registered_devices_are_streams():
    from cresset.utils import backend_registration
    assert issubclass(backend_registration.Stream, torch.Stream)
    assert issubclass(backend_registration.Event, torch.Event)
    assert torch._C._log_api_usage_once("torchmetrics.metric") is None
