//go:build tools

// Package engines names the command that scripts/engines builds for the tests against real engines.
package engines

import _ "sigs.k8s.io/kueue/cmd/kueue"
