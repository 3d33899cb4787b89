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

// What a plugin may take: the kubelet's minute, and an answer that fits.
const (
	providerTimeout = time.Minute
	maxResponse     = 1 << 20
	maxCached       = 1000
)

// Providers are the credential provider plugins of a kubelet's config.
type Providers struct {
	all []*provider
	// flights are the questions under way, each asked once.
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
	// keep is how long an answer is kept that does not say so.
	defaultTTL time.Duration
}

// keptKey is what an answer is for: by kind an image, a registry, or all.
type cacheKey struct{ provider, kind, value string }

type cachedKeyring struct {
	keyring Keyring
	until   time.Time
}

// The kinds of a plugin's answers.
const (
	cacheByImage    = "Image"
	cacheByRegistry = "Registry"
	cacheGlobally   = "Global"
)

func newProviders() *Providers { return &Providers{cache: map[cacheKey]cachedKeyring{}} }

// lookup asks every plugin that is for the image, or its last answer.
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

// ask is a plugin's answer. The question outlives whoever asked first, as
// others may wait for it.
func (p *Providers) request(ctx context.Context, plugin *provider, image Image) (Keyring, error) {
	if k, ok := p.cached(plugin, image); ok {
		return k, nil
	}
	asking := p.inFlight.DoChan(plugin.name+" "+image.Reference, func() (any, error) {
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
	case r := <-asking:
		keyring, _ := r.Val.(Keyring)
		return keyring, r.Err
	case <-ctx.Done():
		return Keyring{}, context.Cause(ctx)
	}
}

func (p *Providers) keys(plugin *provider, image Image) []cacheKey {
	return []cacheKey{{plugin.name, cacheByImage, image.Reference}, {plugin.name, cacheByRegistry, image.host}, {plugin.name, cacheGlobally, ""}}
}

// known is an answer that is still good.
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

// note keeps an answer for as long as it says.
func (p *Providers) store(plugin *provider, image Image, a *response, keyring Keyring) {
	keep := plugin.defaultTTL
	if a.CacheDuration != nil {
		keep = a.CacheDuration.Duration
	}
	if keep <= 0 {
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
			p.cache[key] = cachedKeyring{keyring, now.Add(min(keep, maxTTL))}
		}
	}
}

// answer is the API's CredentialProviderResponse.
type response struct {
	metav1.TypeMeta `json:",inline"`
	CacheKeyType    string           `json:"cacheKeyType"`
	CacheDuration   *metav1.Duration `json:"cacheDuration"`
	Auth            map[string]login `json:"auth"`
}

// run asks the plugin over its standard input and reads its standard output.
func (p *provider) run(ctx context.Context, image Image) (*response, error) {
	question, err := json.Marshal(map[string]string{
		"apiVersion": p.version, "kind": "CredentialProviderRequest", "image": image.Reference,
	})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, p.program, p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdin = bytes.NewReader(question)
	out, complaint := &limitedBuffer{limit: maxResponse}, &limitedBuffer{limit: 4096}
	cmd.Stdout, cmd.Stderr = out, complaint
	// What it started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("did not answer within %s", providerTimeout)
		}
		if line := lastLine(complaint.String()); line != "" {
			return nil, fmt.Errorf("failed with %w: %s", err, line)
		}
		return nil, fmt.Errorf("failed with %w", err)
	}
	var a response
	// What it said may be a secret, and is not repeated.
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		return nil, errors.New("printed no JSON of the kind CredentialProviderResponse")
	}
	if a.Kind != "CredentialProviderResponse" || a.APIVersion != p.version {
		return nil, fmt.Errorf("answered with apiVersion %q and kind %q: want %s and CredentialProviderResponse", a.APIVersion, a.Kind, p.version)
	}
	if !slices.Contains([]string{cacheByImage, cacheByRegistry, cacheGlobally}, a.CacheKeyType) {
		return nil, fmt.Errorf("answered with cacheKeyType %q: want %s, %s or %s", a.CacheKeyType, cacheByImage, cacheByRegistry, cacheGlobally)
	}
	return &a, nil
}

// bounded keeps the beginning of what is written to it.
type limitedBuffer struct {
	bytes.Buffer
	limit int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, b.limit-b.Len()))])
	return len(p), nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
