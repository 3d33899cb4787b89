package config

import (
	"strings"
	"testing"
)

// More than the node has cannot be reserved. Each error names the largest part of the sum.
func TestImpossibleReservations(t *testing.T) {
	for name, c := range map[string]struct{ fields, want string }{
		"memory": {"systemReserved: {memory: 900Ti}\nkubeReserved: {memory: 1Mi}\nevictionHard: {memory.available: " +
			"100Mi}\n", `:3: systemReserved: resource "memory" has a reservation of `},
		"sum": {"systemReserved: {memory: 900Ti}\nkubeReserved: {memory: 1Mi}\nevictionHard: {memory.available: " +
			"100Mi}\n", `900Ti of systemReserved, 1Mi of kubeReserved, 100Mi of evictionHard; reserve less`},
		"eviction": {"evictionHard: {memory.available: 900Ti}\n",
			`:3: evictionHard: resource "memory" has a reservation of 900Ti but capacity of `},
		"cpu": {"kubeReserved: {cpu: 9000}\n",
			`:3: kubeReserved: resource "cpu" has a reservation of 9k but capacity of `},
		"storage": {"systemReserved: {ephemeral-storage: 9000Ti}\n",
			`:3: systemReserved: resource "ephemeral-storage" has a reservation of `},
		"pid": {"systemReserved: {pid: 90000000}\n",
			`:3: systemReserved: resource "pid" has a reservation of 90e6 but capacity of `},
		"reservable": {"systemReserved: {memory: 1Mi, cpu: 1m, pid: 1}\n", ""},
	} {
		file, err := completeOn(t, testHost(t), c.fields)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), file+":3: ") ||
			!strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
