import { builtIn } from '../../src/catalog/service.ts'
import { readConfig } from '../../src/config/config.ts'
import type { Definition } from '../../src/definition/service.ts'
import { versionLifecycles } from '../../src/version-lifecycle.ts'

/** The PLINTH_VERSIONS setting for a deprecated v1 and a retired v0. */
export const ending = JSON.stringify({
  v0: { status: 'retired', successor: 'v1' },
  v1: { status: 'deprecated', deprecatedAt: '2026-12-01', sunsetAt: '2027-12-01', successor: 'v2' },
  v2: { status: 'active' },
})

/** Returns the version lifecycles that a PLINTH_VERSIONS value specifies for a definition. */
export const lifecyclesOf = (plans: string, definition: Definition = builtIn) =>
  versionLifecycles(definition, readConfig({ PLINTH_VERSIONS: plans }).versions.plans)
