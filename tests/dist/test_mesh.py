"""Meshes of ranks: parts, flattened and divided dimensions, groups that exist.  The values are torch 2.13's."""
import pickle

import pytest

import cresset as torch
import cresset.distributed as dist
from cresset.distributed.device_mesh import DeviceMesh, init_device_mesh


@pytest.fixture(params=[0, 5])
def mesh(request):
    dist.init_process_group("fake", store=dist.HashStore(), rank=request.param, world_size=8)
    yield init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("a", "b", "c"))
    dist.destroy_process_group()


def facts(mesh):
    return (mesh.mesh.tolist(), mesh.mesh_dim_names, mesh.get_coordinate(),
            [dist.get_process_group_ranks(g) for g in mesh.get_all_groups()], repr(mesh))


def by_rank(mesh, zero, five):
    return zero if mesh.get_rank() == 0 else five


def test_parts_by_names(mesh):
    assert facts(mesh["a"]) == by_rank(mesh, ([0, 4], ("a",), (0,), [[0, 4]], "DeviceMesh((a=2), 'cpu', stride=(4,))"),
                                       ([1, 5], ("a",), (1,), [[1, 5]], "DeviceMesh((a=2), 'cpu', stride=(4,))"))
    assert facts(mesh["a", "c"]) == by_rank(
        mesh, ([[0, 1], [4, 5]], ("a", "c"), (0, 0), [[0, 4], [0, 1]], "DeviceMesh((a=2, c=2), 'cpu', stride=(4, 1))"),
        ([[0, 1], [4, 5]], ("a", "c"), (1, 1), [[1, 5], [4, 5]], "DeviceMesh((a=2, c=2), 'cpu', stride=(4, 1))"))
    assert mesh["a", "b", "c"] is mesh and mesh["b", "c"]["b"] == mesh["b"] and hash(mesh["b"]) == hash(mesh["b"])
    assert mesh["a"] != mesh["b"] and mesh.mesh.dtype == torch.int32 and mesh.size(1) == 2 and mesh["b"].get_local_rank() == 0
    assert [m.mesh.tolist() for m in mesh._get_all_submeshes("b")] == [[0, 2], [1, 3], [4, 6], [5, 7]]


def test_dimensions_are_flattened_and_divided(mesh):
    flat = mesh["b", "c"]._flatten()
    assert facts(flat) == by_rank(mesh, ([0, 1, 2, 3], ("b_c",), (0,), [[0, 1, 2, 3]], "DeviceMesh((b_c=4), 'cpu', stride=(1,))"),
                                  ([4, 5, 6, 7], ("b_c",), (1,), [[4, 5, 6, 7]], "DeviceMesh((b_c=4), 'cpu', stride=(1,))"))
    assert mesh["b", "c"]._flatten() is flat and mesh.get_group("b_c") is flat.get_group()
    assert mesh["a", "b_c"].mesh.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert facts(mesh["a", "c"]._flatten()) == (
        [0, 1, 4, 5], ("a_c",), (by_rank(mesh, 0, 3),), [[0, 1, 4, 5]], "DeviceMesh((a_c=4), 'cpu', stride=((4, 1),))")
    line = init_device_mesh("cpu", (8,), mesh_dim_names=("w",))
    assert facts(line._unflatten("w", (2, 2, 2), ("x", "y", "z"))["x", "z"]) == by_rank(
        mesh, ([[0, 1], [4, 5]], ("x", "z"), (0, 0), [[0, 4], [0, 1]], "DeviceMesh((x=2, z=2), 'cpu', stride=(4, 1))"),
        ([[0, 1], [4, 5]], ("x", "z"), (1, 1), [[1, 5], [4, 5]], "DeviceMesh((x=2, z=2), 'cpu', stride=(4, 1))"))
    assert DeviceMesh._concatenate([mesh["a"], mesh["c"]]) == mesh["a", "c"]
    assert repr(init_device_mesh("cpu", (1, 8), mesh_dim_names=("one", "all"))) == "DeviceMesh((one=1, all=8), 'cpu', stride=((), 1))"


def test_meshes_of_groups_that_exist_and_of_other_backends(mesh):
    made = DeviceMesh.from_group(dist.group.WORLD, "cpu")
    assert made.mesh.tolist() == list(range(8)) and made.get_group() is dist.group.WORLD
    grid = torch.arange(8).view(2, 4)
    both = DeviceMesh.from_group([mesh.get_group("a"), mesh["b", "c"]._flatten().get_group()], "cpu", grid, mesh_dim_names=("r", "s"))
    assert both.get_group("r") is mesh.get_group("a") and both["s"].mesh.tolist() == grid[both.get_coordinate()[0]].tolist()
    other = init_device_mesh("cpu", (2, 4), mesh_dim_names=("p", "q"), backend_override={"p": "fake"})
    assert dist.get_backend(other.get_group("p")) == "fake"
    again = pickle.loads(pickle.dumps(mesh))
    assert again == mesh and again["a"] == mesh["a"]
    with mesh:
        from cresset.distributed.device_mesh import _mesh_resources
        assert _mesh_resources.get_current_mesh() is mesh


@pytest.mark.parametrize("call, kind, words", [
    (lambda m: m["b", "a"], KeyError, "Mesh dim indices should be in ascending order"),
    (lambda m: m["z"], KeyError, r"Invalid mesh_dim_names \('z',\) specified. Valid mesh_dim_names are \['a', 'b', 'c'\]"),
    (lambda m: m["a", "a"], RuntimeError, "Slicing overlapping dim_names"),
    (lambda m: init_device_mesh("cpu", (2, 4))["a"], RuntimeError, "Cannot slice a DeviceMesh without mesh_dim_names!"),
    (lambda m: m["a", "b"]._flatten("c"), ValueError, "c already exists for submesh"),
    (lambda m: (m["b", "c"]._flatten("x"), m["a", "b"]._flatten("x")), ValueError, "x has been created before"),
    (lambda m: m.get_group(), RuntimeError, "Found the DeviceMesh have 3 dimensions"),
    (lambda m: m.get_group("zz"), KeyError, "Mesh dimension 'zz' does not exist"),
    (lambda m: m._unflatten(0, (3, 2), ("x", "y")), ValueError, "These must be equal for unflatten to work correctly"),
    (lambda m: m._unflatten(3, (3, 2), ("x", "y")), ValueError, "dim 3 specified in `_unflatten` is out of range 3"),
    (lambda m: DeviceMesh._concatenate([m["a"], m["a"]]), RuntimeError, "Cannot concatenate overlapping meshes"),
    (lambda m: DeviceMesh.from_group([], "cpu"), ValueError, "Expects at least one ProcessGroup to be passed"),
    (lambda m: DeviceMesh.from_group(dist.group.WORLD, "cpu", [1, 2]), ValueError, r"Invalid mesh \[1, 2\] for ProcessGroup"),
    (lambda m: init_device_mesh("cpu", (4, 4)), RuntimeError, "should not be bigger than default world size 8, but found 16 ranks"),
    (lambda m: init_device_mesh("cpu:0", (8,)), RuntimeError, "Device type with index is not supported but got cpu:0"),
    (lambda m: init_device_mesh("cpu", (2, 4), backend_override={"z": "fake"}), RuntimeError, "Found invalid keys in backend_override"),
    (lambda m: DeviceMesh("cpu"), TypeError, "The mesh argument is required")])
def test_bad_meshes_are_refused(mesh, call, kind, words):
    with pytest.raises(kind, match=words):
        call(mesh)
