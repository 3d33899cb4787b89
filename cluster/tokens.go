package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/retry"
)

// The kubelet's rules of service account tokens: a token is replaced after a part
// of its lifetime, at the latest after a day, and a little earlier by chance so
// that the tokens of many pods are not renewed at once.
const (
	tokenShare  = 0.8
	tokenMaxAge = 24 * time.Hour
	tokenJitter = 10 * time.Second
	// defaultTokenSeconds is the API's default of expirationSeconds.
	defaultTokenSeconds = 3600
)

// tokenKey identifies a token.
type tokenKey struct {
	uid                     types.UID
	namespace, pod, account string
	audience                string
	seconds                 int64
}

// token is a service account token that is kept fresh.
type token struct {
	value string
	// serial counts the tokens so far.
	serial int
	// expiresAt is when the present token expires.
	expiresAt time.Time
	err       error
	stop      context.CancelFunc
}

// state changes with the token; known is false before the first response.
func (t *token) state() (state string, known bool) {
	switch {
	case t == nil || t.value == "" && t.err == nil:
		return "?", false
	case t.value == "":
		return "!" + t.err.Error(), true
	}
	return strconv.Itoa(t.serial), true
}

// tokensOf returns the tokens that a pod projects, each once.
func tokensOf(pod *v1.Pod) (keys uniqueList[tokenKey]) {
	for i := range pod.Spec.Volumes {
		projected := pod.Spec.Volumes[i].Projected
		if projected == nil {
			continue
		}
		for j := range projected.Sources {
			if of := projected.Sources[j].ServiceAccountToken; of != nil {
				keys.add(tokenOf(pod, of))
			}
		}
	}
	return keys
}

func tokenOf(pod *v1.Pod, of *v1.ServiceAccountTokenProjection) tokenKey {
	key := tokenKey{
		uid: pod.UID, namespace: pod.Namespace, pod: pod.Name, account: pod.Spec.ServiceAccountName,
		audience: of.Audience, seconds: defaultTokenSeconds,
	}
	if of.ExpirationSeconds != nil {
		key.seconds = *of.ExpirationSeconds
	}
	return key
}

// Token returns a token of the pod's service account, for a projected volume.
func (o *Objects) Token(pod *v1.Pod, of *v1.ServiceAccountTokenProjection) (string, error) {
	key := tokenOf(pod, of)
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tokens[key].current()
}

var errTokenUnknown = errors.New("the API server has not issued a token yet")

// current returns the token.
func (t *token) current() (string, error) {
	switch {
	case t == nil || t.value == "" && t.err == nil:
		return "", errTokenUnknown
	case t.value == "":
		return "", t.err
	case t.err != nil && time.Now().After(t.expiresAt):
		return "", fmt.Errorf("the token has expired: %w", t.err)
	}
	return t.value, nil
}

// startToken begins to keep a token fresh.
func (o *Objects) startToken(ctx context.Context, wg *sync.WaitGroup, a *Adapter, key tokenKey) *token {
	t := &token{}
	ctx, t.stop = context.WithCancel(ctx)
	wg.Go(func() { o.keepToken(ctx, a, key, t) })
	return t
}

// keepToken keeps one token fresh until the context ends.
func (o *Objects) keepToken(ctx context.Context, a *Adapter, key tokenKey, t *token) {
	failures := 0
	for {
		value, life, err := a.requestToken(ctx, key)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if isResponse(err) {
				failures++
				o.setTokenRefusal(t, err, failures)
			}
			if !a.connection.backoff(ctx, failures) {
				return
			}
			continue
		}
		failures = 0
		o.mu.Lock()
		// By the local clock: that of the API server may differ.
		t.value, t.err, t.expiresAt = value, nil, time.Now().Add(life)
		t.serial++
		o.subscribers.Notify()
		o.mu.Unlock()
		if !retry.Sleep(ctx, renewalDelay(life)) {
			return
		}
	}
}

// setTokenRefusal takes a refusal. A present token stays until it expires.
func (o *Objects) setTokenRefusal(t *token, err error, failures int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if failures < toleratedRefusals || t.err != nil && t.err.Error() == err.Error() {
		return
	}
	t.err = err
	o.subscribers.Notify()
}

// renewalDelay returns when a token of that lifetime is replaced.
func renewalDelay(life time.Duration) time.Duration {
	after := min(time.Duration(float64(life)*tokenShare), tokenMaxAge)
	return max(after-rand.N(tokenJitter), time.Second)
}

// requestToken requests a token that is bound to the pod, and returns its
// lifetime.
func (a *Adapter) requestToken(ctx context.Context, key tokenKey) (string, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &key.seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: key.pod, UID: key.uid},
	}}
	if key.audience != "" {
		request.Spec.Audiences = []string{key.audience}
	}
	given := &authenticationv1.TokenRequest{}
	err := a.client.core.Post().Namespace(key.namespace).Resource("serviceaccounts").Name(key.account).SubResource(
		"token").
		Body(request).Do(ctx).Into(given)
	if err != nil {
		return "", 0, err
	}
	life := time.Duration(key.seconds) * time.Second
	if given.Spec.ExpirationSeconds != nil {
		life = time.Duration(*given.Spec.ExpirationSeconds) * time.Second
	}
	return given.Status.Token, life, nil
}
