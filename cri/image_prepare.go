package cri

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// preparedFor is how long an image that was pulled before its pod started counts as
// pulled for the start: longer than a predecessor usually takes to end.
const preparedFor = 15 * time.Minute

// preparedImage is an image with the policy Always that was pulled before its pod
// started.
type preparedImage struct {
	id string
	at time.Time
	// starts is how many containers may still start with it without another pull.
	starts int
}

// PrepareImages pulls the images of a pod that does not run yet, as its start would,
// all at the same time. It returns nil if the start can use all of them without
// waiting, or why it could not, and when to try again: zero if that is not known. waiting is called before a pull,
// with what the pod waits for.
func (s *Syncer) PrepareImages(ctx context.Context, pod *v1.Pod, credentials PullCredentials,
	waiting func(Waiting)) (*Waiting, time.Duration) {
	starts := map[imageKey]int{}
	var keys []imageKey
	add := func(key imageKey) {
		if starts[key]++; starts[key] == 1 {
			keys = append(keys, key)
		}
	}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		add(imageOf(c))
	}
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			add(imageKey{image.Reference, image.PullPolicy})
		}
	}
	errs := make([]error, len(keys))
	var wg sync.WaitGroup
	for i, key := range keys {
		wg.Go(func() { errs[i] = s.images.prepare(ctx, pod, key, starts[key], credentials, waiting) })
	}
	wg.Wait()
	var first *Waiting
	after := time.Duration(0)
	for _, err := range errs {
		if err == nil {
			continue
		}
		w := Waiting{reasonErrImagePull, err.Error()}
		delay := time.Duration(0) // such as one with the policy Never, which no pull can bring
		var failed *waitError
		if errors.As(err, &failed) {
			w = failed.Waiting
			delay = failed.retryAfter
		}
		if first == nil {
			first = &w
		}
		if delay > 0 && (after == 0 || delay < after) {
			after = delay
		}
	}
	return first, after
}

// prepare makes an image present. It reports nothing about one that is.
func (m *imageManager) prepare(ctx context.Context, pod *v1.Pod, key imageKey, starts int, credentials PullCredentials,
	waiting func(Waiting)) error {
	image, err := imageName(key.image)
	if err != nil {
		return &waitError{Waiting: Waiting{reasonInvalidImageName, err.Error()}, cause: err}
	}
	present, err := m.service.ImageStatus(ctx, image)
	if err != nil {
		return &waitError{Waiting: Waiting{reasonImageInspect,
			fmt.Sprintf("Failed to inspect image %q: %s", key.image, detail(err))}, cause: err}
	}
	if key.policy != v1.PullAlways && present != nil {
		return nil
	}
	if key.policy != v1.PullNever {
		waiting(Waiting{reasonQueued, fmt.Sprintf("Pulling image %q", key.image)})
	}
	if _, err = m.ensure(ctx, pod, key.image, key.policy, credentials); err != nil || key.policy != v1.PullAlways {
		return err
	}
	// Its ID, as the start finds it; a pull may return another reference.
	if present, err = m.service.ImageStatus(ctx, image); err != nil || present == nil {
		return nil // the start pulls it again
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.prepared[pod.UID] == nil {
		m.prepared[pod.UID] = map[string]preparedImage{}
	}
	m.prepared[pod.UID][image] = preparedImage{id: present.Id, at: time.Now(), starts: starts}
	return nil
}

// takePrepared reports whether an image that is present was pulled for this start of the
// pod already: the registry may be unreachable by now, and the pod must not wait for it.
func (m *imageManager) takePrepared(uid types.UID, image, id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.prepared[uid][image]
	if !ok {
		return false
	}
	p.starts--
	usable := p.id == id && time.Since(p.at) < preparedFor
	if p.starts > 0 && usable {
		m.prepared[uid][image] = p
		return true
	}
	delete(m.prepared[uid], image)
	if len(m.prepared[uid]) == 0 {
		delete(m.prepared, uid)
	}
	return usable
}

// ForgetPrepared drops what is known of the images of a pod that does not start after
// all.
func (s *Syncer) ForgetPrepared(uid types.UID) {
	s.images.mu.Lock()
	defer s.images.mu.Unlock()
	delete(s.images.prepared, uid)
	delete(s.images.failures, uid)
}
