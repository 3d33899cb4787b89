package manifest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/internal/signature"
)

// maxRedirects is the maximum number of redirects of a request.
const maxRedirects = 5

// urlFetcher requests the body of a URL.
type urlFetcher struct {
	url     *url.URL
	header  http.Header
	caFile  string
	timeout time.Duration
	// signed requests the signature of each body as well.
	signed bool

	transport http.RoundTripper
	// ca is the content of the CA file in use.
	ca []byte
	// etag and modified are the validators of the last body.
	etag, modified string
}

// urlResponse is one of: a body, no change since the last body, a body with a
// fault, or an error if there is no response.
type urlResponse struct {
	body []byte
	// signature is that of the body, if it must have one.
	signature detached
	unchanged bool
	fault     *Fault
	err       error
}

// connect creates the transport.
func (f *urlFetcher) connect() error {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if f.caFile != "" {
		data, err := os.ReadFile(f.caFile)
		if err != nil {
			return fmt.Errorf("cannot read the CA file of the manifest URL: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			return fmt.Errorf("the CA file of the manifest URL, %s, contains no certificate; must contain PEM certificates",
				f.caFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		f.ca = data
	}
	f.close()
	f.transport = transport
	return nil
}

// reloadCA uses a CA file that was replaced. An invalid file changes nothing,
// since it may be half written.
func (f *urlFetcher) reloadCA() {
	if f.caFile == "" {
		return
	}
	if data, err := os.ReadFile(f.caFile); err == nil && string(data) != string(f.ca) {
		_ = f.connect() // the old one stays
	}
}

// close closes idle connections.
func (f *urlFetcher) close() {
	if transport, ok := f.transport.(*http.Transport); ok {
		transport.CloseIdleConnections()
	}
}

// fetch sends one request. No error contains the URL, which may contain
// secrets.
func (f *urlFetcher) fetch(ctx context.Context) urlResponse {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	client := http.Client{Transport: f.transport, CheckRedirect: f.redirect}
	response, err := client.Do(f.request(ctx))
	if err != nil {
		return urlResponse{err: f.withoutURL(err)}
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotModified && f.etag+f.modified != "":
		return urlResponse{unchanged: true}
	case response.StatusCode != http.StatusOK:
		return urlResponse{err: fmt.Errorf("answered with status %d %s; must be 200", response.StatusCode,
			http.StatusText(response.StatusCode))}
	}
	// Only a complete body counts.
	f.etag, f.modified = "", ""
	body, err := io.ReadAll(io.LimitReader(response.Body, MaxUnitSize+1))
	if err != nil {
		return urlResponse{err: f.withoutURL(err)}
	}
	if len(body) > MaxUnitSize {
		fault := tooLargeFault(redactURL(f.url))
		return urlResponse{fault: &fault}
	}
	result := urlResponse{body: body}
	if f.signed {
		if result.signature, err = f.fetchSignature(ctx, &client); err != nil {
			return urlResponse{err: err}
		}
	}
	f.etag, f.modified = response.Header.Get("Etag"), response.Header.Get("Last-Modified")
	return result
}

// fetchSignature requests the signature of the body. The error is for one of which it is
// not known whether it exists.
func (f *urlFetcher) fetchSignature(ctx context.Context, client *http.Client) (detached, error) {
	address := *f.url
	address.Path += SignatureSuffix
	if address.RawPath != "" {
		address.RawPath += SignatureSuffix
	}
	request := f.request(ctx)
	request.URL = &address
	request.Header.Del("If-None-Match")
	request.Header.Del("If-Modified-Since")
	sig := detached{name: redactURL(&address)}
	response, err := client.Do(request)
	if err != nil {
		return sig, fmt.Errorf("the signature %w", f.withoutURL(err))
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		sig.err = fs.ErrNotExist
		return sig, nil
	default:
		return sig, fmt.Errorf("the signature was answered with status %d %s; must be 200", response.StatusCode,
			http.StatusText(response.StatusCode))
	}
	sig.data, err = io.ReadAll(io.LimitReader(response.Body, signature.MaxSize+1))
	if err != nil {
		return sig, fmt.Errorf("the signature %w", f.withoutURL(err))
	}
	if len(sig.data) > signature.MaxSize {
		sig.err = boundedfile.ErrTooLarge
	}
	return sig, nil
}

// canonical returns headers with the canonical names of net/http, which
// otherwise would neither find them nor remove them at a redirect.
func canonical(header http.Header) http.Header {
	spelled := make(http.Header, len(header))
	for name, values := range header {
		for _, value := range values {
			spelled.Add(name, value)
		}
	}
	return spelled
}

func (f *urlFetcher) request(ctx context.Context) *http.Request {
	request := (&http.Request{Method: http.MethodGet, URL: f.url, Host: f.url.Host, Header: f.header.Clone()}).WithContext(
		ctx)
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	if f.etag != "" {
		request.Header.Set("If-None-Match", f.etag)
	}
	if f.modified != "" {
		request.Header.Set("If-Modified-Since", f.modified)
	}
	return request
}

// redirect limits redirects and protects secrets: another host gets none of the
// configured headers, and no host gets the query in a Referer.
func (f *urlFetcher) redirect(request *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("was redirected more than %d times", maxRedirects)
	}
	if via[0].URL.Scheme == "https" && request.URL.Scheme != "https" {
		return errors.New("was redirected from https to " + request.URL.Scheme)
	}
	request.Header.Del("Referer")
	if request.URL.Host != f.url.Host {
		for key := range f.header {
			request.Header.Del(key)
		}
	}
	return nil
}

// withoutURL removes the URL from an error.
func (f *urlFetcher) withoutURL(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("did not answer within %v", f.timeout)
	}
	var urlError *url.Error
	for errors.As(err, &urlError) {
		err = urlError.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}
