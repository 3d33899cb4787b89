package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cri"
)

// Limits: a plugin's run time (the kubelet's), the size of its response in bytes, and
// the number of cached responses.
const (
	providerTimeout = time.Minute
	maxResponse     = 1 << 20
	maxCached       = 1000
)

// Providers runs the credential provider plugins of a kubelet's configuration.
type Providers struct {
	all []*provider
	// inFlight shares one run of a plugin among concurrent requests for an image.
	inFlight singleflight.Group

	mu    sync.Mutex
	cache map[cacheKey]cachedKeyring
}

// provider is one plugin.
type provider struct {
	name, program string
	args, env     []string
	version       string
	images        []pattern
	// defaultTTL is how long a response is cached that states no duration.
	defaultTTL time.Duration
}

// keptKey is what a response applies to: by kind an image, a registry, or everything.
type cacheKey struct{ provider, kind, value string }

type cachedKeyring struct {
	keyring Keyring
	until   time.Time
}

// The cache key types of responses.
const (
	cacheByImage    = "Image"
	cacheByRegistry = "Registry"
	cacheGlobally   = "Global"
)

func newProviders() *Providers { return &Providers{cache: map[cacheKey]cachedKeyring{}} }

// lookup returns the credentials of all plugins that match the image.
func (p *Providers) lookup(ctx context.Context, image Image) ([]cri.Credential, error) {
	var found []cri.Credential
	var errs []error
	for _, plugin := range p.all {
		if !slices.ContainsFunc(plugin.images, func(m pattern) bool { return m.matches(image) }) {
			continue
		}
		keyring, err := p.request(ctx, plugin, image)
		if err != nil {
			errs = append(errs, err)
		}
		found = append(found, keyring.Lookup(image)...)
	}
	return found, errors.Join(errs...)
}

// request returns a plugin's credentials, cached or from a run of it. The run outlives
// the first caller's context, as others may wait for it.
func (p *Providers) request(ctx context.Context, plugin *provider, image Image) (Keyring, error) {
	if k, ok := p.cached(plugin, image); ok {
		return k, nil
	}
	result := p.inFlight.DoChan(plugin.name+" "+image.Reference, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), providerTimeout)
		defer cancel()
		a, err := plugin.run(ctx, image)
		if err != nil {
			return Keyring{}, fmt.Errorf("credential provider %q: %w", plugin.name, err)
		}
		keyring, err := newKeyring(a.Auth, fmt.Sprintf("credential provider %q", plugin.name))
		p.store(plugin, image, a, keyring)
		return keyring, err
	})
	select {
	case r := <-result:
		keyring, _ := r.Val.(Keyring)
		return keyring, r.Err
	case <-ctx.Done():
		return Keyring{}, context.Cause(ctx)
	}
}

func (p *Providers) keys(plugin *provider, image Image) []cacheKey {
	return []cacheKey{{plugin.name, cacheByImage, image.Reference}, {plugin.name, cacheByRegistry, image.host},
		{plugin.name, cacheGlobally, ""}}
}

// cached returns a cached response that is still valid.
func (p *Providers) cached(plugin *provider, image Image) (Keyring, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range p.keys(plugin, image) {
		if k, ok := p.cache[key]; ok && time.Now().Before(k.until) {
			return k.keyring, true
		}
	}
	return Keyring{}, false
}

// store caches a response for as long as it states.
func (p *Providers) store(plugin *provider, image Image, a *response, keyring Keyring) {
	ttl := plugin.defaultTTL
	if a.CacheDuration != nil {
		ttl = a.CacheDuration.Duration
	}
	if ttl <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for key, k := range p.cache {
		if now.After(k.until) || len(p.cache) >= maxCached {
			delete(p.cache, key)
		}
	}
	for _, key := range p.keys(plugin, image) {
		if key.kind == a.CacheKeyType {
			p.cache[key] = cachedKeyring{keyring, now.Add(min(ttl, maxTTL))}
		}
	}
}

// response is the API's CredentialProviderResponse.
type response struct {
	metav1.TypeMeta `json:",inline"`
	CacheKeyType    string           `json:"cacheKeyType"`
	CacheDuration   *metav1.Duration `json:"cacheDuration"`
	Auth            map[string]login `json:"auth"`
}

// run executes the plugin with the request on its standard input and parses its
// standard output.
func (p *provider) run(ctx context.Context, image Image) (*response, error) {
	request, err := json.Marshal(map[string]string{
		"apiVersion": p.version, "kind": "CredentialProviderRequest", "image": image.Reference,
	})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, p.program, p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdin = bytes.NewReader(request)
	stdout, stderr := &limitedBuffer{limit: maxResponse}, &limitedBuffer{limit: 4096}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// Kill its whole process group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("did not answer within %s", providerTimeout)
		}
		if line := lastLine(stderr.String()); line != "" {
			return nil, fmt.Errorf("failed: %w: %s", err, line)
		}
		return nil, fmt.Errorf("failed: %w", err)
	}
	var a response
	// The output may contain a secret: never quote it.
	if err := json.Unmarshal(stdout.Bytes(), &a); err != nil {
		return nil, errors.New("output is not a CredentialProviderResponse in JSON")
	}
	if a.Kind != "CredentialProviderResponse" || a.APIVersion != p.version {
		return nil, fmt.Errorf("response has apiVersion %q and kind %q; want %s and CredentialProviderResponse", a.APIVersion,
			a.Kind, p.version)
	}
	if !slices.Contains([]string{cacheByImage, cacheByRegistry, cacheGlobally}, a.CacheKeyType) {
		return nil, fmt.Errorf("response has cacheKeyType %q; want %s, %s or %s", a.CacheKeyType, cacheByImage,
			cacheByRegistry, cacheGlobally)
	}
	return &a, nil
}

// limitedBuffer keeps the first limit bytes of what is written to it.
type limitedBuffer struct {
	bytes.Buffer
	limit int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, b.limit-b.Len()))])
	return len(p), nil
}

// lastLine returns the last line of a text.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
