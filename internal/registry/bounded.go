package registry

import (
	"bytes"
	"io"
	"net/http"

	"oras.land/oras-go/v2/registry/remote"
)

// boundedClient refuses responses that become much larger when they are decoded: those with
// more than limit bytes, or with more than maxValues values.
type boundedClient struct {
	remote.Client
	limit int64
}

// Do implements remote.Client.
func (c boundedClient) Do(q *http.Request) (*http.Response, error) {
	response, err := c.Client.Do(q)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, c.limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > c.limit:
		return nil, errorf(ErrTooLarge, "the registry's answer has more than %d bytes", c.limit)
	case hasManyValues(data):
		return nil, errorf(ErrTooLarge, "the registry's answer has more than %d values", maxValues)
	}
	response.Body = io.NopCloser(bytes.NewReader(data))
	return response, nil
}
