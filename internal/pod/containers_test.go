package pod

import (
	"iter"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

var always = v1.ContainerRestartPolicyAlways

// testSpec has containers of all kinds; two init containers are sidecars.
func testSpec() *v1.PodSpec {
	ephemeral := v1.EphemeralContainer{}
	ephemeral.Name = "debug"
	return &v1.PodSpec{
		InitContainers: []v1.Container{
			{Name: "init"}, {Name: "proxy", RestartPolicy: &always}, {Name: "migrate"}, {Name: "log", RestartPolicy: &always},
		},
		Containers:          []v1.Container{{Name: "web"}, {Name: "app"}},
		EphemeralContainers: []v1.EphemeralContainer{ephemeral},
	}
}

func names(seq iter.Seq[*v1.Container]) []string {
	var all []string
	for c := range seq {
		all = append(all, c.Name)
	}
	return all
}

func TestEachContainer(t *testing.T) {
	for kinds, want := range map[ContainerKinds][]string{
		0:                                       nil,
		InitContainers:                          {"init", "proxy", "migrate", "log"},
		RegularContainers:                       {"web", "app"},
		EphemeralContainers:                     {"debug"},
		SpecContainers:                          {"init", "proxy", "migrate", "log", "web", "app"},
		AllContainers:                           {"init", "proxy", "migrate", "log", "web", "app", "debug"},
		RegularContainers | EphemeralContainers: {"web", "app", "debug"},
	} {
		if got := names(EachContainer(testSpec(), kinds)); !slices.Equal(got, want) {
			t.Errorf("kinds %b: %v, want %v", kinds, got, want)
		}
	}
}

// The pointers are into the spec, so that a caller can change its own copy.
func TestEachContainerYieldsPointersIntoTheSpec(t *testing.T) {
	spec := testSpec()
	for c := range EachContainer(spec, AllContainers) {
		c.Image = "img:" + c.Name
	}
	if spec.InitContainers[1].Image != "img:proxy" || spec.Containers[0].Image != "img:web" ||
		spec.EphemeralContainers[0].Image != "img:debug" {
		t.Errorf("%+v", spec)
	}
}

func TestIterationsEndEarly(t *testing.T) {
	for _, stop := range []string{"init", "log", "web", "app", "debug"} {
		last := ""
		for c := range EachContainer(testSpec(), AllContainers) {
			if last = c.Name; last == stop {
				break
			}
		}
		if last != stop {
			t.Errorf("EachContainer went on to %s after %s", last, stop)
		}
	}
	for _, stop := range []string{"proxy", "web"} {
		last := ""
		for c := range LongRunning(testSpec()) {
			if last = c.Name; last == stop {
				break
			}
		}
		if last != stop {
			t.Errorf("LongRunning went on to %s after %s", last, stop)
		}
	}
}

func TestLongRunning(t *testing.T) {
	if got, want := names(LongRunning(testSpec())), []string{"proxy", "log", "web", "app"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := names(LongRunning(&v1.PodSpec{})); got != nil {
		t.Errorf("without containers: %v", got)
	}
}

func TestFindContainer(t *testing.T) {
	spec := testSpec()
	for _, name := range []string{"init", "app", "debug"} {
		if c := FindContainer(spec, name); c == nil || c.Name != name {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c := FindContainer(spec, "none"); c != nil {
		t.Errorf("%+v", c)
	}
}
