package cri

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func resources(request, limit string) v1.ResourceRequirements {
	list := func(s string) v1.ResourceList {
		if s == "" {
			return nil
		}
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(s)}
	}
	return v1.ResourceRequirements{Requests: list(request), Limits: list(limit)}
}

// The values are stored with running containers: if one changed, an upgrade
// would restart all of them.
func TestHashGolden(t *testing.T) {
	full := v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m"), v1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("128Mi")},
	}
	for want, c := range map[string]v1.Container{
		"482ec5cf": {Name: "web", Image: "nginx:1.27"},
		"cd56057a": {Name: "web", Image: "nginx:1.27", Resources: full},
	} {
		if got := Hash(&c); got != want {
			t.Errorf("Hash(%s with %v) = %s, want %s", c.Name, c.Resources, got, want)
		}
	}
}

func TestHashCoversInPlaceChanges(t *testing.T) {
	base := v1.Container{Name: "a", Image: "i:1", Resources: resources("1", "2")}
	hash := Hash(&base)
	for name, change := range map[string]func(*v1.Container){
		"image":         func(c *v1.Container) { c.Image = "i:2" },
		"name":          func(c *v1.Container) { c.Name = "b" },
		"request":       func(c *v1.Container) { c.Resources = resources("1500m", "2") },
		"limit":         func(c *v1.Container) { c.Resources = resources("1", "3") },
		"limit removed": func(c *v1.Container) { c.Resources = resources("1", "") },
	} {
		c := base
		change(&c)
		if Hash(&c) == hash {
			t.Errorf("a change of %s is not detected", name)
		}
	}
	for name, change := range map[string]func(*v1.Container){
		"1000m instead of 1": func(c *v1.Container) { c.Resources = resources("1000m", "2.0") },
		"command":            func(c *v1.Container) { c.Command = []string{"x"} },
		"empty lists": func(c *v1.Container) {
			c.Resources.Claims = []v1.ResourceClaim{}
		},
	} {
		c := base
		change(&c)
		if Hash(&c) != hash {
			t.Errorf("%s changes the hash", name)
		}
	}
	if a, b := (v1.Container{}),
		(v1.Container{Resources: v1.ResourceRequirements{Limits: v1.ResourceList{}}}); Hash(&a) != Hash(&b) {
		t.Error("an empty list of limits differs from none")
	}
}
