import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const plinthFile = pathToFileURL(fileURLToPath(new URL('../../bin/import.js', import.meta.url))).href

/** Creates a folder for definition files; their import of 'plinth' loads this checkout. */
export function definitionFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'plinth-definitions-'))
  const write = (name: string, text: string): string => {
    const file = join(folder, `${name}.ts`)
    writeFileSync(file, text.replace("'plinth'", `'${plinthFile}'`))
    return file
  }
  return { write, remove: () => rmSync(folder, { recursive: true, force: true }) }
}

/** The source code of a definition with one resource, `/items`. */
export const itemsDefinition = (body: string, more = '') => `
  import { collection, Decimal, Line, service, Type } from 'plinth'
  const items = collection({ path: '/items', noun: 'item', body: Type.Object({ ${body} }), ${more} })
  export default service({ version: '2.0', resources: [items] })`
