package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Reasons why a container waits for its image, as in the kubelet's statuses.
const (
	reasonErrImagePull     = "ErrImagePull"
	reasonImagePullBackOff = "ImagePullBackOff"
	reasonErrNeverPull     = "ErrImageNeverPull"
	reasonInvalidImageName = "InvalidImageName"
	reasonImageInspect     = "ImageInspectError"
)

// The kubelet's back-off of image pulls.
const (
	imageBackoffInitial = 10 * time.Second
	imageBackoffMax     = 300 * time.Second
	imageBackoffReset   = 10 * time.Minute
	// imageErrorShown is how long a pod reports ErrImagePull before it reports
	// the back-off: the pod is synced again then, as at the kubelet after 10 s.
	imageErrorShown = time.Second
)

// ImageRuntime is what the Syncer needs of the runtime's image service. *Client
// and ObservedPulls implement it.
type ImageRuntime interface {
	// ImageStatus returns nil for an image that is not present.
	ImageStatus(ctx context.Context, image string) (*runtimeapi.Image, error)
	PullImage(ctx context.Context, image string, auth *runtimeapi.AuthConfig) (string, error)
}

// imageManager ensures that the images of containers are present.
type imageManager struct {
	service ImageRuntime
	events  Recorder
	pulls   *puller
	access  imageAccess
	// archives are searched before a pull.
	archives ImageArchives

	mu       sync.Mutex
	failures map[types.UID]map[string]imageFailure // by image
	prepared map[types.UID]map[string]preparedImage
}

// imageFailure is a failed pull, and the delay before the next one.
type imageFailure struct {
	at    time.Time
	delay time.Duration
	err   error
	// revision is that of the credentials with which the pull failed.
	revision string
}

func newImageManager(c ImageConfig, events Recorder) *imageManager {
	if c.Ensured == nil {
		c.Ensured = func(EnsuredImage) {}
	}
	if c.Archives == nil {
		c.Archives = noArchives{}
	}
	return &imageManager{
		service: c.Runtime, events: events, access: imageAccess{c.Policy, c.Records, c.Ensured}, archives: c.Archives,
		pulls:    newPuller(recordedPulls{c.Runtime, c.Records}, cmp.Or(c.ParallelPulls, DefaultParallelPulls)),
		failures: map[types.UID]map[string]imageFailure{},
		prepared: map[types.UID]map[string]preparedImage{},
	}
}

// ensure returns the runtime's reference to a container's image and pulls the
// image if the pull policy requires it, or if the pod may not use the image that is
// present. An error is a *waitError, or the context's.
//
// An image that an archive contains is never pulled while that archive can be loaded: with
// the policy Always the archive takes the place of the registry.
func (m *imageManager) ensure(ctx context.Context, pod *v1.Pod, requested string, policy v1.PullPolicy,
	credentials PullCredentials) (string, error) {
	for {
		ref, err := m.ensureOnce(ctx, pod, requested, policy, credentials)
		if err == nil || !errors.Is(err, errArchived) {
			return ref, err
		}
	}
}

func (m *imageManager) ensureOnce(ctx context.Context, pod *v1.Pod, requested string, policy v1.PullPolicy,
	credentials PullCredentials) (string, error) {
	image, err := imageName(requested)
	if err != nil {
		m.events.Event(pod, v1.EventTypeWarning, "InspectFailed", err.Error())
		return "", &waitError{Waiting: Waiting{reasonInvalidImageName, err.Error()}, cause: err}
	}
	e := EnsuredImage{Policy: policy}
	defer func() { m.access.ensured(e) }()
	present, err := m.service.ImageStatus(ctx, image)
	if err != nil && policy != v1.PullAlways {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		message := fmt.Sprintf("Failed to inspect image %q: %s", requested, detail(err))
		m.events.Event(pod, v1.EventTypeWarning, "InspectFailed", message)
		return "", &waitError{Waiting: Waiting{reasonImageInspect, message}, cause: err}
	}
	archived, ok := m.archives.Find(image, present != nil)
	ok = ok && archived.Fault == "" && policy != v1.PullNever
	if ok && archived.Loading && (present == nil || policy == v1.PullAlways) {
		return "", m.waitForArchive(pod, requested, archived.Archive)
	}
	if policy != v1.PullAlways || ok {
		e.Present = known(present != nil)
		if present != nil && m.access.allowed(ctx, pod, requested, present, credentials, &e) {
			m.forget(pod.UID, image)
			m.events.Event(pod, v1.EventTypeNormal, "Pulled",
				fmt.Sprintf("Container image %q already present on machine", requested))
			return present.Id, nil
		}
	}
	if policy == v1.PullAlways && present != nil && m.takePrepared(pod.UID, image, present.Id) {
		m.events.Event(pod, v1.EventTypeNormal, "Pulled",
			fmt.Sprintf("Container image %q was pulled before the pod was replaced", requested))
		return present.Id, nil
	}
	if policy == v1.PullNever {
		// The same text for an image that the pod may not use, which must not show that
		// the image is present.
		message := fmt.Sprintf("Container image %q is not present with pull policy of Never", requested)
		m.events.Event(pod, v1.EventTypeWarning, reasonErrNeverPull, message)
		return "", &waitError{Waiting: Waiting{reasonErrNeverPull, message}, cause: errors.New(message)}
	}
	e.PullRequired = known(true)
	need := imageRequest{requested: requested, image: image, present: present != nil}
	if archived.Fault != "" {
		need.note = "; image archive " + archived.Archive + " contains it, but: " + archived.Fault
	}
	return m.pull(ctx, pod, need, credentials)
}

// imageRequest is an image to pull: the reference as requested and in full. An
// image that is present (policy Always, or another pod's) is only looked up again and
// never queues.
type imageRequest struct {
	requested, image string
	present          bool
	// note is added to the error of the pull.
	note string
}

// pull pulls an image unless it is in back-off.
func (m *imageManager) pull(ctx context.Context, pod *v1.Pod, need imageRequest, credentials PullCredentials) (string,
	error) {
	requested, image := need.requested, need.image
	if left, failed := m.wait(pod.UID, image, credentials.Revision); left > 0 {
		message := fmt.Sprintf("Back-off pulling image %q", requested)
		m.events.Event(pod, v1.EventTypeNormal, "BackOff", message)
		message += ": " + reasonErrImagePull + ": " + detail(failed)
		return "", &waitError{Waiting: Waiting{reasonImagePullBackOff, message}, retryAfter: left}
	}
	m.events.Event(pod, v1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", requested))
	start := time.Now()
	list, lookupErr := credentials.lookup(ctx, image)
	pulling, end := ctx, func() {}
	if !need.present {
		pulling, end = m.untilArchived(ctx, image)
	}
	defer end()
	f, err := m.pulls.request(pulling,
		pullRequest{image: image, credentials: list, unqueued: need.present, mustRecord: verifies(pod)})
	switch {
	case ctx.Err() != nil:
		// No pod waits for it any more; that is no failure of the image.
		return "", context.Cause(ctx)
	case errors.Is(err, errArchived):
		return "", err
	case err != nil:
		if need.note != "" {
			err = &pullError{text: detail(err) + need.note}
		}
		if lookupErr != nil {
			err = &pullError{text: detail(err) + "; credential lookup failed: " +
				strings.ReplaceAll(lookupErr.Error(), "\n", "; ")}
		}
		delay := m.failed(pod.UID, image, imageFailure{err: err, revision: credentials.Revision})
		message := fmt.Sprintf("Failed to pull image %q: %s", requested, detail(err))
		m.events.Event(pod, v1.EventTypeWarning, "Failed", message)
		return "", &waitError{Waiting: Waiting{reasonErrImagePull, message}, cause: err,
			retryAfter: min(delay, imageErrorShown)}
	}
	m.forget(pod.UID, image)
	waited := time.Since(start)
	m.events.Event(pod, v1.EventTypeNormal, "Pulled",
		fmt.Sprintf("Successfully pulled image %q in %s (%s including waiting)",
			requested, f.took.Round(time.Millisecond), waited.Round(time.Millisecond)))
	return f.ref, nil
}

// wait returns how long the next pull of an image for a pod must wait, and why.
func (m *imageManager) wait(uid types.UID, image, revision string) (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.failures[uid][image]
	if !ok || f.revision != revision {
		return 0, nil
	}
	return f.delay - time.Since(f.at), f.err
}

// failed records a failed pull and returns the delay before the next one.
func (m *imageManager) failed(uid types.UID, image string, failure imageFailure) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	failure.at, failure.delay = time.Now(), imageBackoffInitial
	if f, ok := m.failures[uid][image]; ok && time.Since(f.at) <= imageBackoffReset && f.revision == failure.revision {
		failure.delay = min(2*f.delay, imageBackoffMax)
	}
	if m.failures[uid] == nil {
		m.failures[uid] = map[string]imageFailure{}
	}
	m.failures[uid][image] = failure
	return failure.delay
}

func (m *imageManager) forget(uid types.UID, image string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.failures[uid], image)
	if len(m.failures[uid]) == 0 {
		delete(m.failures, uid)
	}
}

func (m *imageManager) forgetPod(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.failures, uid)
	delete(m.prepared, uid)
}
