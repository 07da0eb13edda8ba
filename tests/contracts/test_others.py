"""What our code asks of safetensors, the hub, datasets and Ray beyond their basics."""

import datasets
import pytest
import torch
from huggingface_hub import hf_hub_download, snapshot_download
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from tests.contracts.library import accepts


def test_shapes_are_read_from_the_header_of_safetensors(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"x": torch.ones(2, 3)}, path, metadata={"about": "text"})
    with safe_open(path, framework="pt") as file:
        assert list(file.keys()) == ["x"]
        assert file.get_slice("x").get_shape() == [2, 3]
        assert torch.equal(file.get_tensor("x"), torch.ones(2, 3))
        assert file.metadata() == {"about": "text"}


def test_a_cut_file_of_safetensors_is_refused_on_opening(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"x": torch.ones(64)}, path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SafetensorError), safe_open(path, framework="pt"):
        pass


def test_the_hub_is_asked_for_a_commit_and_for_some_files():
    assert accepts(snapshot_download, "repo_id", "revision", "allow_patterns")
    assert accepts(hf_hub_download, "repo_id", "filename", "repo_type", "revision")


def test_progress_bars_of_datasets_can_be_switched():
    disabled = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    assert datasets.are_progress_bars_disabled()
    if not disabled:
        datasets.enable_progress_bars()
    assert datasets.are_progress_bars_disabled() is disabled


def test_ray_takes_the_loopback_address_by_the_switch_that_we_set(monkeypatch):
    """With it off, all processes of a cluster listen on 127.0.0.1 alone."""
    pytest.importorskip("ray")
    from ray._private import ray_constants, services

    assert isinstance(ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR, str)
    outside = "192.0.2.1"
    monkeypatch.setattr(
        services, "node_ip_address_from_perspective", lambda *_: outside
    )
    monkeypatch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", False)
    assert services.get_node_ip_address() in ("127.0.0.1", "::1")
    monkeypatch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", True)
    assert services.get_node_ip_address() == outside


def test_ray_reads_its_environment_again():
    pytest.importorskip("ray")
    from ray import _raylet

    _raylet.Config.initialize("")
    _raylet.AuthenticationTokenLoader.instance().reset_cache()


def test_ray_sends_code_of_registered_modules_by_value():
    pytest.importorskip("ray")
    import ray.cloudpickle as cloudpickle

    import tests.contracts.library as module

    by_name = cloudpickle.dumps(module.accepts)
    cloudpickle.register_pickle_by_value(module)
    try:
        assert module.__name__ in cloudpickle.list_registry_pickle_by_value()
        by_value = cloudpickle.dumps(module.accepts)
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    assert len(by_value) > len(by_name)
