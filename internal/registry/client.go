package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

const (
	// defaultTimeout is that of a manifest URL.
	defaultTimeout = 10 * time.Second
	// maxSessions limits the credentials whose tokens are kept: plugins return new ones
	// every few hours.
	maxSessions = 64
	maxRedirect = 5
	// maxHeader limits the headers of a response in bytes: parts of them are the keys of tokens.
	maxHeader = 64 << 10
	// minRate is the rate, in bytes per second, at which a blob is expected on a slow line.
	minRate = 16 << 10
	// maxResolved limits the manifest of a registry that does not respond with its digest.
	maxResolved = 4 << 20
)

// Credential is one way to log in to a registry; the zero value is none. Printing it
// shows nothing.
type Credential struct {
	Username, Password string
	// IdentityToken is exchanged for access tokens, RegistryToken is an access token;
	// either replaces the password.
	IdentityToken, RegistryToken string
}

// String hides the credential.
func (c Credential) String() string { return "[hidden]" }

// GoString hides the credential.
func (c Credential) GoString() string { return "[hidden]" }

// LogValue hides the credential.
func (c Credential) LogValue() slog.Value { return slog.StringValue("[hidden]") }

// Options configures a Client.
type Options struct {
	// PlainHTTP are the registries, with their ports, that are reached without TLS, in
	// addition to those on loopback.
	PlainHTTP []string
	// CAFile is a PEM file of certificate authorities to trust in addition to the
	// system's; empty for none.
	CAFile string
	// Mirrors are registries that are asked before a registry and without credentials, by
	// its host. A mirror without TLS is also in PlainHTTP.
	Mirrors map[string][]string
	// Timeout applies to one call with the body; zero means 10 seconds. A blob has one
	// second more for each 16 KiB.
	Timeout time.Duration
	// UserAgent is sent with each request; empty is Go's.
	UserAgent string
}

// Client reads from registries. It is safe for concurrent use and keeps access tokens in
// memory, so that a repeated request is a single one.
type Client struct {
	options   Options
	timeout   time.Duration
	transport *http.Transport

	mu       sync.Mutex
	sessions map[session]*auth.Client
}

// session is a login at a host.
type session struct {
	host       string
	credential Credential
}

// New creates a Client; it connects to nothing. The error is for a CA file that has no
// certificates.
func New(o Options) (*Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// The length of a response has to be known, which a proxy that compresses takes away.
	transport.DisableCompression = true
	transport.MaxResponseHeaderBytes = maxHeader
	if o.CAFile != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		data, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read the CA file of registries: %w", err)
		}
		if !pool.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("the CA file of registries, %s, contains no certificate; must contain PEM certificates",
				o.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	c := &Client{options: o, timeout: o.Timeout, transport: transport, sessions: map[session]*auth.Client{}}
	if c.timeout <= 0 {
		c.timeout = defaultTimeout
	}
	return c, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// httpFor returns the HTTP client for a registry, on the connections of all.
func (c *Client) httpFor(host string) *http.Client {
	isPlain := func(target string) bool {
		return slices.Contains(c.options.PlainHTTP, target) || IsLoopback(target) && IsLoopback(host)
	}
	return &http.Client{Transport: tlsGuard{c.transport, isPlain},
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > maxRedirect {
				return fmt.Errorf("was redirected more than %d times", maxRedirect)
			}
			return nil
		}}
}

// IsPlain reports whether a host is reached without TLS.
func (c *Client) IsPlain(host string) bool {
	return IsLoopback(host) || slices.Contains(c.options.PlainHTTP, host)
}

// tlsGuard refuses requests without TLS to other hosts, to which a redirect or the
// address of an authorization server may lead. Services on loopback trust their clients, so
// that only a registry on loopback may refer to them.
type tlsGuard struct {
	http.RoundTripper
	isPlain func(host string) bool
}

// RoundTrip implements http.RoundTripper.
func (g tlsGuard) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.URL.Scheme != "https" && !g.isPlain(q.URL.Host) {
		return nil, errorf(nil, "the registry refers to %s without TLS; add that host to the registries without TLS if you "+
			"trust the network in between", q.URL.Host)
	}
	return g.RoundTripper.RoundTrip(q)
}

// acceptedTypes are the media types of manifests that are requested.
var acceptedTypes = []string{TypeManifest, TypeIndex, typeDockerManifest, typeDockerIndex}

// repository returns the repository of a reference at a host.
func (c *Client) repository(host, path string, credential Credential) *remote.Repository {
	return &remote.Repository{
		Client:             c.login(session{host, credential}),
		Reference:          registry.Reference{Registry: host, Repository: path},
		PlainHTTP:          c.IsPlain(host),
		ManifestMediaTypes: acceptedTypes,
	}
}

// login returns the client of a session.
func (c *Client) login(s session) *auth.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client := c.sessions[s]; client != nil {
		return client
	}
	if len(c.sessions) >= maxSessions {
		clear(c.sessions) // they log in again
	}
	client := &auth.Client{
		Client: c.httpFor(s.host), Cache: &tokenCache{inner: auth.NewCache()}, ClientID: "podstead", Header: http.Header{},
		Credential: auth.StaticCredential(s.host, auth.Credential{
			Username: s.credential.Username, Password: s.credential.Password,
			RefreshToken: s.credential.IdentityToken, AccessToken: s.credential.RegistryToken,
		}),
	}
	if c.options.UserAgent != "" {
		client.Header.Set("User-Agent", c.options.UserAgent)
	}
	if IsLoopback(s.host) {
		client.BlockedRealmPrefixes = []netip.Prefix{} // its authorization server is there as well
	}
	c.sessions[s] = client
	return client
}

// call is a request with its timeout.
type call struct {
	*Client
	timeout time.Duration
}

// attempt calls request for each mirror and then with each credential, until one
// succeeds or a further one cannot help.
func attempt[T any](ctx context.Context, c call, r Reference, credentials []Credential,
	request func(context.Context, *remote.Repository) (T, error)) (T, error) {
	once := func(host string, credential Credential) (T, error) {
		limited, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		result, err := request(limited, c.repository(host, r.Repository, credential))
		return result, classify(ctx, err, c.timeout)
	}
	for _, mirror := range c.options.Mirrors[r.Host] {
		if result, err := once(mirror, Credential{}); err == nil || ctx.Err() != nil {
			return result, err
		}
	}
	if len(credentials) == 0 {
		credentials = []Credential{{}}
	}
	var result T
	var err error
	for _, credential := range credentials {
		if result, err = once(r.Host, credential); !errors.Is(err, ErrUnauthorized) {
			break
		}
	}
	return result, err
}

// Resolve returns the descriptor of the manifest that a reference names now. It is a HEAD
// request, which registries with a limit of pulls do not count; one that does not respond it
// with a digest gets a GET request. Credentials are tried in order; none requests without a login.
func (c *Client) Resolve(ctx context.Context, r Reference, credentials ...Credential) (Descriptor, error) {
	desired := r.Tag
	if r.Digest != "" {
		desired = r.Digest
	}
	return attempt(ctx, call{c, c.timeout}, r, credentials,
		func(ctx context.Context, repository *remote.Repository) (Descriptor, error) {
			found, err := repository.Manifests().Resolve(ctx, desired)
			if responsesWithoutDigest(err) {
				repository.MaxMetadataBytes = maxResolved
				var body io.ReadCloser
				if found, body, err = repository.Manifests().FetchReference(ctx, desired); err == nil {
					_ = body.Close()
				}
			}
			if err != nil {
				return Descriptor{}, err
			}
			return Descriptor{MediaType: found.MediaType, Digest: found.Digest.String(), Size: found.Size}, nil
		})
}

// responsesWithoutDigest reports whether a registry responded to a HEAD request, but not
// with the digest, which is then that of the manifest.
func responsesWithoutDigest(err error) bool {
	var response *errcode.ErrorResponse
	var unanswered *url.Error
	switch {
	case err == nil, errors.Is(err, errdef.ErrNotFound), errors.Is(err, auth.ErrBasicCredentialNotFound),
		errors.As(err, &unanswered):
		return false
	case errors.As(err, &response):
		return response.StatusCode == http.StatusMethodNotAllowed
	}
	return true
}

// FetchManifest returns the manifest or index with the digest of the reference, which
// must have one: at most limit bytes, and verified. Credentials are as for Resolve.
func (c *Client) FetchManifest(ctx context.Context, r Reference, limit int64, credentials ...Credential) (Manifest,
	error) {
	want, err := digest.Parse(r.Digest)
	if err != nil {
		return Manifest{}, errorf(nil, "%q is not a digest: %v", r.Digest, err)
	}
	return attempt(ctx, call{c, c.timeout}, r, credentials,
		func(ctx context.Context, repository *remote.Repository) (Manifest, error) {
			repository.MaxMetadataBytes = limit
			found, body, err := repository.Manifests().FetchReference(ctx, want.String())
			if err != nil {
				return Manifest{}, err
			}
			data, err := readVerified(body, want, limit)
			if err != nil {
				return Manifest{}, err
			}
			return parseManifest(found.MediaType, want.String(), data)
		})
}

// FetchBlob returns the blob of a descriptor in the repository of the reference: at most
// limit bytes, and verified. Credentials are as for Resolve.
func (c *Client) FetchBlob(ctx context.Context, r Reference, blob Descriptor, limit int64,
	credentials ...Credential) ([]byte, error) {
	want, err := digest.Parse(blob.Digest)
	switch {
	case err != nil:
		return nil, errorf(nil, "%q is not a digest: %v", blob.Digest, err)
	case blob.Size > limit:
		return nil, errorf(ErrTooLarge, "%s has %d bytes, at most %d are read", blob.Digest, blob.Size, limit)
	}
	slow := time.Duration(max(blob.Size, 0)/minRate) * time.Second
	return attempt(ctx, call{c, c.timeout + slow}, r, credentials,
		func(ctx context.Context, repository *remote.Repository) ([]byte, error) {
			body, err := repository.Blobs().Fetch(ctx,
				ocispec.Descriptor{MediaType: blob.MediaType, Digest: want, Size: blob.Size})
			if err != nil {
				return nil, err
			}
			return readVerified(body, want, limit)
		})
}

// readVerified reads and closes a body of at most limit bytes with that digest.
func readVerified(body io.ReadCloser, want digest.Digest, limit int64) ([]byte, error) {
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil && errors.Is(err, context.DeadlineExceeded):
		return nil, err
	case err != nil:
		return nil, errorf(ErrUnreachable, "the registry's answer ended early: %s", printable(err.Error()))
	case int64(len(data)) > limit:
		return nil, errorf(ErrTooLarge, "%s has more than %d bytes", want, limit)
	case want.Algorithm().FromBytes(data) != want:
		return nil, errorf(ErrDigestMismatch, "the content of %s has another digest, %s", want,
			want.Algorithm().FromBytes(data))
	}
	return data, nil
}

// Referrers returns the manifests whose subject is the one with the digest of the reference,
// such as its signatures: of a registry without that part of the API those that its fallback
// tag lists. A page of the list has at most limit bytes. Credentials are as for Resolve.
func (c *Client) Referrers(ctx context.Context, r Reference, limit int64, credentials ...Credential) ([]Descriptor,
	error) {
	subject, err := digest.Parse(r.Digest)
	if err != nil {
		return nil, errorf(nil, "%q is not a digest: %v", r.Digest, err)
	}
	return attempt(ctx, call{c, c.timeout}, r, credentials,
		func(ctx context.Context, repository *remote.Repository) (all []Descriptor, err error) {
			repository.MaxMetadataBytes = limit
			repository.Client = boundedClient{repository.Client, limit}
			err = repository.Referrers(ctx, ocispec.Descriptor{MediaType: TypeManifest, Digest: subject}, "",
				func(page []ocispec.Descriptor) error {
					if len(all)+len(page) > maxReferrers {
						return errorf(ErrTooLarge, "%s has more than %d referrers", r.Digest, maxReferrers)
					}
					for _, d := range page {
						all = append(all, Descriptor{MediaType: d.MediaType, Digest: d.Digest.String(), Size: d.Size,
							ArtifactType: d.ArtifactType, Annotations: d.Annotations})
					}
					return nil
				})
			return all, err
		})
}

// maxReferrers limits the referrers of a manifest.
const maxReferrers = 1000
