import { ConfigError } from '../startup-errors.ts'
import { type ComparedSettings, type NodeFacts, sharedSettings } from './node.ts'

/** The differences between two nodes. */
export interface NodeDifferences {
  /** Differences that prevent this node from using the database. */
  refused: string[]
  /** Differences that are allowed, for example during a rolling upgrade. */
  allowed: string[]
}

/** Returns the differences between this node and another node, as sentences that name the other process. */
export function differencesBetween(own: NodeFacts, other: NodeFacts): NodeDifferences {
  const at = `process ${other.pid} on ${other.hostname} (release ${other.version})`
  const settings = settingDifferences(own, other, at)
  const { lacking, additional } = definitionDifferences(own, other, at)
  return {
    refused: [...settings.filter(({ isShared }) => isShared).map(({ text }) => text), ...lacking],
    allowed: [...settings.filter(({ isShared }) => !isShared).map(({ text }) => text), ...additional],
  }
}

/**
 * Compares this node with the others and returns the differences that are allowed. Throws a `ConfigError` that lists
 * all differences that are not allowed.
 */
export function checkAgreement(own: NodeFacts, others: readonly NodeFacts[]): string[] {
  const all = others.map((other) => differencesBetween(own, other))
  const refused = all.flatMap((one) => one.refused)
  if (refused.length === 0) return all.flatMap(({ allowed }) => allowed)
  throw new ConfigError(
    `this process does not agree with those that use the database:\n${refused.join('\n')}\n` +
      'Correct this process, or stop the others first; a process killed on another machine counts as running for 40 seconds',
  )
}

function settingDifferences(own: NodeFacts, other: NodeFacts, at: string) {
  const [here, there] = [own, other].map(({ settings }) => JSON.parse(settings) as ComparedSettings) as [
    ComparedSettings,
    ComparedSettings,
  ]
  // Compare only the settings that both nodes publish: another release may publish other settings.
  const names = Object.keys(here).filter((name) => name in there && here[name] !== there[name])
  return names.map((name) => ({
    isShared: sharedSettings.includes(name),
    text: `${name} is ${here[name] ?? 'not set'} here, but ${there[name] ?? 'not set'} in ${at}`,
  }))
}

type Resources = Readonly<Record<string, readonly string[]>>

/**
 * Returns how this node's definition differs from another node's. `lacking`: missing resources, which are not allowed.
 * `additional`: additional resources and fields, and missing fields, which are all allowed.
 */
function definitionDifferences(own: NodeFacts, other: NodeFacts, at: string) {
  if (own.definition === other.definition) return { lacking: [], additional: [] }
  const [here, there] = [own, other].map(({ resources }) => JSON.parse(resources) as Resources) as [
    Resources,
    Resources,
  ]
  const missing = (from: Resources, of: Resources) => Object.keys(of).filter((path) => !(path in from))
  const fields = (from: Resources, of: Resources) =>
    Object.entries(of).flatMap(([path, names]) =>
      names.filter((name) => from[path] && !from[path].includes(name)).map((name) => `${path}: ${name}`),
    )
  const sentence = (what: readonly string[], verb: string) =>
    what.length === 0 ? [] : [`the definition ${verb} ${what.join(', ')}, unlike that of ${at}`]
  return {
    lacking: sentence(missing(here, there), 'does not have'),
    additional: [
      ...sentence([...missing(there, here), ...fields(there, here)], 'also has'),
      ...sentence(fields(here, there), 'does not have the fields'),
    ],
  }
}
