package registry

import (
	"context"
	"sync"

	"oras.land/oras-go/v2/registry/remote/auth"
)

// maxTokens limits the tokens that are kept of one session. A repository needs one, which is
// replaced when it expires.
const maxTokens = 32

// tokenCache is an auth.Cache that forgets all tokens after maxTokens of them. A registry
// chooses the scope under which a token is kept, so that it could fill the memory.
type tokenCache struct {
	mu    sync.Mutex
	inner auth.Cache
	set   int
}

func (c *tokenCache) current() auth.Cache {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inner
}

// GetScheme implements auth.Cache.
func (c *tokenCache) GetScheme(ctx context.Context, registry string) (auth.Scheme, error) {
	return c.current().GetScheme(ctx, registry)
}

// GetToken implements auth.Cache.
func (c *tokenCache) GetToken(ctx context.Context, registry string, scheme auth.Scheme, key string) (string, error) {
	return c.current().GetToken(ctx, registry, scheme, key)
}

// Set implements auth.Cache.
func (c *tokenCache) Set(ctx context.Context, registry string, scheme auth.Scheme, key string,
	fetch func(context.Context) (string, error)) (string, error) {
	c.mu.Lock()
	if c.set++; c.set > maxTokens {
		c.inner, c.set = auth.NewCache(), 1
	}
	inner := c.inner
	c.mu.Unlock()
	return inner.Set(ctx, registry, scheme, key, fetch)
}
