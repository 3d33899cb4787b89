package compose

import (
	"math"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/cli/convert/docker"
	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/report"
	"github.com/podstead/podstead/cli/convert/tree"
)

func (s *service) deploy(n *tree.Node, f report.Field) {
	for _, field := range fieldsOf(n) {
		at := f.Child(field.Key, field.Position)
		switch field.Key {
		case "mode":
		case "replicas":
			s.replicas(field.Value, at)
		case "resources":
			for _, part := range fieldsOf(field.Value) {
				s.resources(part.Key, part.Value, at.Child(part.Key, part.Position))
			}
		case "restart_policy":
			for _, option := range fieldsOf(field.Value) {
				if option.Key != "condition" {
					s.p.report.Lost(at.Child(option.Key, option.Position),
						"the back-off is that of Kubernetes: 10 s, doubling up to 5 minutes",
						"set the annotation podstead.io/max-container-restart-period")
				}
			}
		case "labels":
			s.p.report.Note(at, "are left out: they describe the service, and not its containers", "")
		case "placement":
			s.p.report.Lost(at, "the pod runs on the node with its manifest", "")
		case "update_config", "rollback_config":
			s.p.report.Lost(at, "a changed pod is pulled first and then replaced as a whole",
				"set the annotation podstead.io/rollback-after to return to the last revision that was ready")
		case "endpoint_mode":
			s.p.report.Note(at, "has no effect", "")
		default:
			if !strings.HasPrefix(field.Key, "x-") {
				s.p.report.Error(at, "is not a field of deploy", "")
			}
		}
	}
}

// resources sets limits or requests.
func (s *service) resources(kind string, n *tree.Node, f report.Field) {
	set := podbuild.SetLimit
	switch kind {
	case "limits":
	case "reservations":
		set = podbuild.SetRequest
	default:
		s.p.report.Error(f, "is not a field of resources", "must be limits or reservations")
		return
	}
	for _, field := range fieldsOf(n) {
		at := f.Child(field.Key, field.Position)
		switch field.Key {
		case "cpus":
			set(s.c, v1.ResourceCPU, s.cpuQuantity(field.Value, at))
		case "memory":
			set(s.c, v1.ResourceMemory, docker.BytesQuantity(s.bytes(field.Value, at)))
		case "pids":
			s.p.report.Lost(at, "a container has no limit of processes of its own", "set podPidsLimit of the daemon")
		case "devices", "generic_resources":
			s.p.report.Lost(at, "a device is a resource of the node or of a device plugin",
				"see docs/devices.md, and set resources.limits")
		default:
			s.p.report.Error(at, "is not a field of "+kind, "")
		}
	}
}

func (s *service) cpuQuantity(n *tree.Node, f report.Field) resource.Quantity {
	q, err := docker.ParseCPUs(n.String())
	if err != nil {
		s.p.report.Error(f, "is "+n.Describe(), err.Error())
	}
	return q
}

func (s *service) cpus(n *tree.Node, f report.Field) {
	if q := s.cpuQuantity(n, f); !q.IsZero() {
		podbuild.SetLimit(s.c, v1.ResourceCPU, q)
	}
}

func (s *service) memLimit(n *tree.Node, f report.Field) {
	if size := s.bytes(n, f); size > 0 {
		podbuild.SetLimit(s.c, v1.ResourceMemory, docker.BytesQuantity(size))
	}
}

func (s *service) memReservation(n *tree.Node, f report.Field) {
	if size := s.bytes(n, f); size > 0 {
		podbuild.SetRequest(s.c, v1.ResourceMemory, docker.BytesQuantity(size))
	}
}

// cpuShares become the request that leads to the same shares: 1024 are one CPU.
func (s *service) cpuShares(n *tree.Node, f report.Field) {
	if shares := s.int(n, f); shares > 0 && shares < math.MaxInt32 {
		podbuild.SetRequest(s.c, v1.ResourceCPU, *resource.NewMilliQuantity((shares*1000+1023)/1024, resource.DecimalSI))
		s.p.report.Note(f, "is a request of CPU, which the node must have free; without a limit it is no bound", "")
	}
}

// cpuQuota is a limit of quota/period.
func (s *service) cpuQuota(n *tree.Node, f report.Field) {
	period := int64(100_000)
	if p := s.node.Get("cpu_period"); !p.IsNull() {
		period = max(1, s.int(p, s.field("cpu_period", p)))
	}
	if quota := s.int(n, f); quota > 0 && quota < math.MaxInt32 {
		podbuild.SetLimit(s.c, v1.ResourceCPU, *resource.NewMilliQuantity((quota*1000+period-1)/period, resource.DecimalSI))
	}
}
