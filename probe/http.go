package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// maxRedirects is how many redirects are followed (kubelet: 10).
const maxRedirects = 10

// newHTTPClient creates the client of all HTTP probes. It shares nothing between
// probes: no connections, no cookies, and no proxy of the node. Certificates are
// not verified, since none contains a pod's address.
func newHTTPClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:        dialer().DialContext,
			TLSClientConfig:    &tls.Config{InsecureSkipVerify: true},
			DisableKeepAlives:  true,
			DisableCompression: true,
			// Each probe keeps the headers in memory, and all of them may run at once.
			MaxResponseHeaderBytes: maxHeaders,
		},
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if next.URL.Hostname() != via[0].URL.Hostname() {
				return http.ErrUseLastResponse
			}
			if len(via) >= maxRedirects {
				return fmt.Errorf("stopped after %d redirects", maxRedirects)
			}
			return nil
		},
	}
}

// probeHTTP sends a GET request. It succeeds with 200 to 399; codes from 300 give
// a warning, above all a redirect to another host.
func (a *actions) probeHTTP(ctx context.Context, q probeRequest) (probeResult, error) {
	request, err := a.request(ctx, &q.target, q.probe.HTTPGet)
	if err != nil {
		return probeResult{}, err
	}
	response, err := a.http.Do(request)
	if err != nil {
		return failedResult(err.Error()), nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxOutput))
	switch code := response.StatusCode; {
	case err != nil:
		return failedResult("failed to read the response: " + err.Error()), nil
	case code >= http.StatusBadRequest || code < http.StatusOK:
		return failedResult(fmt.Sprintf("HTTP probe failed with statuscode: %d", code)), nil
	case code >= http.StatusMultipleChoices:
		text := "Probe terminated redirects, Response body: " + strings.TrimSpace(string(body))
		if to := response.Header.Get("Location"); to != "" {
			text += fmt.Sprintf(" (statuscode %d, redirect to %s is not followed)", code, to)
		}
		return probeResult{ok: true, warning: true, text: text}, nil
	}
	return probeResult{ok: true}, nil
}

func (a *actions) request(ctx context.Context, t *target, get *v1.HTTPGetAction) (*http.Request, error) {
	address, err := t.address(get.Host, get.Port)
	if err != nil {
		return nil, err
	}
	// The path may contain a query; one that is not a URL is used as a path.
	link, err := url.Parse(get.Path)
	if err != nil {
		link = &url.URL{Path: get.Path}
	}
	link.Scheme, link.Host = "http", address
	if get.Scheme == v1.URISchemeHTTPS {
		link.Scheme = "https"
	}
	if !strings.HasPrefix(link.Path, "/") {
		link.Path = "/" + link.Path
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, link.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, h := range get.HTTPHeaders {
		request.Header.Add(h.Name, h.Value)
	}
	// A given header replaces the default, and an empty one suppresses it.
	for name, value := range map[string]string{"User-Agent": a.agent, "Accept": "*/*"} {
		if given, ok := request.Header[name]; !ok {
			request.Header.Set(name, value)
		} else if given[0] == "" && name != "User-Agent" {
			request.Header.Del(name)
		}
	}
	// net/http takes the host only from this field.
	request.Host = request.Header.Get("Host")
	return request, nil
}
