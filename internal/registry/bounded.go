package registry

import (
	"bytes"
	"io"
	"net/http"

	"oras.land/oras-go/v2/registry/remote"
)

// boundedClient refuses answers that become much larger when they are decoded: those with
// more than limit bytes, or with more than maxValues values.
type boundedClient struct {
	remote.Client
	limit int64
}

// Do implements remote.Client.
func (c boundedClient) Do(q *http.Request) (*http.Response, error) {
	answer, err := c.Client.Do(q)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, c.limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > c.limit:
		return nil, errorf(ErrTooLarge, "the registry's answer has more than %d bytes", c.limit)
	case hasManyValues(data):
		return nil, errorf(ErrTooLarge, "the registry's answer has more than %d values", maxValues)
	}
	answer.Body = io.NopCloser(bytes.NewReader(data))
	return answer, nil
}
