package objects

import (
	"context"
	"errors"

	"github.com/podstead/podstead/api/client"
)

// NodeName returns the name of the daemon's node, which pod names end with.
func NodeName(ctx context.Context, c *client.Client) (string, error) {
	l, err := Query{Kind: MustKind("nodes")}.List(ctx, c)
	if err != nil {
		return "", err
	}
	if len(l.Objects) != 1 {
		return "", errors.New("the daemon reported no node")
	}
	return l.Objects[0].Name, nil
}
