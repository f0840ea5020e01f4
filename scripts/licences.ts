/** Lists the licences of the packages that an installation of Plinth contains: `node scripts/licences.ts` prints docs/licences.md. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Permissive licences, by their SPDX identifier. */
const allowed = new Set([
  '0BSD',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  'CC0-1.0',
  'ISC',
  'MIT',
  'MIT-0',
])

/** Licences of packages that state them only in a file; the text must occur in that file. */
const stated: Readonly<Record<string, { licence: string; file: string; text: string }>> = {
  'png-js': { licence: 'MIT', file: 'LICENSE', text: 'MIT License' },
}

interface LockedPackage {
  version: string
  license?: string
  dev?: boolean
}

export interface Licence {
  name: string
  version: string
  /** An SPDX expression. */
  licence: string
  repository: string
}

/** Returns whether an SPDX expression allows use under permissive licences only. */
export const isPermissive = (expression: string): boolean =>
  expression
    .replace(/[()]/g, '')
    .split(' OR ')
    .some((choice) => choice.split(' AND ').every((id) => allowed.has(id)))

/**
 * Returns the licences of the lockfile's packages, except development dependencies, sorted by name. Throws an Error
 * that lists the packages without a permissive licence.
 */
export function licencesOf(folder = root): Licence[] {
  const lock = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, LockedPackage>
  }
  const isInstalled = (path: string, { dev }: LockedPackage) => /(^|\/)node_modules\/(?!plinth-)/.test(path) && !dev
  const installed = Object.entries(lock.packages).filter(([path, locked]) => isInstalled(path, locked))
  const licences = installed.map(([path, locked]) => licenceOf(folder, path, locked))
  const refused = licences.filter(({ licence }) => !isPermissive(licence))
  if (refused.length > 0) {
    const names = refused.map(({ name, version, licence }) => `${name} ${version} (${licence})`).join(', ')
    throw new Error(`No permissive licence: ${names}; allowed are ${[...allowed].join(', ')}`)
  }
  const unique = new Map(licences.map((licence) => [`${licence.name} ${licence.version}`, licence]))
  return [...unique.values()].toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1))
}

const keyOf = ({ name, version }: Licence) => `${name} ${version}`

function licenceOf(folder: string, path: string, { version, license }: LockedPackage): Licence {
  const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
  const licence = license ?? statedLicence(join(folder, path), name)
  return { name, version, licence, repository: repositoryOf(join(folder, path, 'package.json')) }
}

function statedLicence(folder: string, name: string): string {
  const known = stated[name]
  if (known === undefined) return 'none'
  return readFileSync(join(folder, known.file), 'utf8').includes(known.text) ? known.licence : 'none'
}

/**
 * Returns the URL of a package's repository; empty if package.json has none, or if the package is for another platform
 * and not installed.
 */
function repositoryOf(file: string): string {
  if (!existsSync(file)) return ''
  const { repository = '' } = JSON.parse(readFileSync(file, 'utf8')) as { repository?: string | { url?: string } }
  const text = typeof repository === 'string' ? repository : (repository.url ?? '')
  return text
    .replace(/^git\+/, '')
    .replace(/^(git:\/\/|ssh:\/\/git@|git@)/, 'https://')
    .replace(/^(https:\/\/[^/:]+):(?!\/)/, '$1/')
    .replace(/\.git$/, '')
    .replace(/^(?:github:)?([\w.-]+\/[\w.-]+)$/, 'https://github.com/$1')
}

/** Returns the licences of the packages in the build of the console, from the file that the build writes. */
export function bundledLicences(folder = root): Pick<Licence, 'name' | 'version' | 'licence'>[] {
  const text = readFileSync(join(folder, 'console/dist/licences.md'), 'utf8')
  return [...text.matchAll(/^## (\S+) - (\S+) \((.+)\)$/gm)].map(([, name = '', version = '', licence = '']) => ({
    ...{ name, version, licence },
  }))
}

/** Returns the text of docs/licences.md. */
export function licencesPage(licences: readonly Licence[]): string {
  const rows = licences.map(
    ({ name, version, licence, repository }) => `| ${name} | ${version} | ${licence} | ${repository} |`,
  )
  return `# Licences

Plinth has the licence MIT. An installation contains these packages, all with permissive licences. Each package includes its
text or names it in its \`package.json\`. The packages in the build of the console, and their licences, are in
\`console/dist/licences.md\`. \`UPDATE=1 node --test test/deploy/licences.test.ts\` writes this page.

| Package | Version | Licence | Repository |
|---|---|---|---|
${rows.join('\n')}
`
}

if (import.meta.main) process.stdout.write(licencesPage(licencesOf()))
