import { existsSync } from 'node:fs'

/** In a checkout the sources always, so that an old build never misleads; in a package, which has none, what was built. */
const built = !existsSync(new URL('../src/main.ts', import.meta.url))

/** Loads a module of the service by its name without an ending. */
export const load = (name) => import(built ? `../dist/${name}.js` : `../src/${name}.ts`)
