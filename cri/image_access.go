package cri

import (
	"context"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri/pullrecords"
	"github.com/podstead/podstead/internal/imagepolicy"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// ImageConfig determines how the images of pods are pulled, and which pods may use an image that
// is present.
type ImageConfig struct {
	Runtime ImageRuntime
	// ParallelPulls is how many image pulls may start at the same time; 0 means
	// DefaultParallelPulls.
	ParallelPulls int
	Policy        imagepolicy.Policy
	// Records are the records of the pulls; without them every pod may use every image.
	Records *pullrecords.Records
	// Archives are searched before a pull; nil is none.
	Archives ImageArchives
	// Ensured is called for each request for an image. It may be nil.
	Ensured func(EnsuredImage)
}

// EnsuredImage is one request for the image of a container or a volume, for the kubelet's
// metrics.
type EnsuredImage struct {
	Policy v1.PullPolicy
	// Present and PullRequired are nil if they are not known.
	Present, PullRequired *bool
	// Checked is the result of the verification, empty if there was none.
	Checked string
}

// imageAccess decides which pods may use an image that is present.
type imageAccess struct {
	policy  imagepolicy.Policy
	records *pullrecords.Records
	ensured func(EnsuredImage)
}

// verifies reports whether a pod needs credentials of its own for images that are
// present.
func verifies(pod *v1.Pod) bool { return podinfo.PolicyOf(pod).VerifiesImages }

// allowed reports whether a pod may use an image that is present, without a pull.
func (a imageAccess) allowed(ctx context.Context, pod *v1.Pod, requested string, present *runtimeapi.Image,
	credentials PullCredentials, e *EnsuredImage) bool {
	ok := true
	if verifies(pod) {
		verdict := a.records.Check(ctx, a.policy, requested, present,
			func() []pullrecords.Credential { return credentials.recorded(requested) })
		e.Checked, ok = string(verdict), verdict.Allowed()
	}
	e.PullRequired = known(!ok)
	return ok
}

func known(v bool) *bool { return &v }
