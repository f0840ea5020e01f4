import { existsSync } from 'node:fs'

/** A checkout always runs its sources, never a stale build; an installed package contains only the build. */
const built = !existsSync(new URL('../src/main.ts', import.meta.url))

/** Imports a module of the service; `name` has no extension. */
export const load = (name) => import(built ? `../dist/${name}.js` : `../src/${name}.ts`)
