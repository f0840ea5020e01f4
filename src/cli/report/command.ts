import { Command, InvalidArgumentError, Option } from 'commander'
import type { Config } from '../../config/config.ts'
import { formatNames } from '../../reports/formats/format.ts'
import { asClient } from '../print.ts'
import type { ReportFilters } from './actions.ts'

const statuses = ['pending', 'in_progress', 'completed', 'failed']

/** Creates `plinth report run|list|cancel`, a client for a local or remote service. */
export function reportCommand(configuration: () => Config): Command {
  const report = new Command('report')
  const actions = () => import('./actions.ts')
  asClient(report.command('run'))
    .description('Request a report, follow its progress and download it')
    .argument('<type>', 'type of the report, such as users')
    .addOption(new Option('--format <format>', 'format of the result').choices(formatNames).default('csv'))
    .option('--out <file>', 'file to write (default: report-<type>-<task>.<format>)')
    .option('--from <instant>', 'only rows from this day or instant on')
    .option('--to <instant>', 'only rows before this day or instant')
    .option('--fields <names>', 'only these columns, separated by commas')
    .option('--sort <names>', 'sort order, such as name or -createdAt,name')
    .option('--filter <name=value...>', 'only rows with this value', filterOf)
    .option(
      '--param <name=value...>',
      'parameter of a typed report; name:=value for JSON, such as seats:=3',
      parameterOf,
    )
    .action(async (type, options) => (await actions()).run(configuration(), type, options))
  asClient(report.command('list'))
    .description('List your reports, newest first')
    .addOption(new Option('--status <status>', 'only reports with this status').choices(statuses))
    .option('--json', 'print JSON')
    .action(async (options) => (await actions()).listReports(configuration(), options))
  asClient(report.command('cancel'))
    .description('Cancel a report')
    .argument('<task>')
    .action(async (task, options) => (await actions()).cancelReport(configuration(), task, options))
  return report
}

/**
 * Parses a filter such as `minPrice=5` and adds it to the earlier filters. Numeric values of `min…` and `max…` become
 * numbers.
 */
function filterOf(text: string, before: ReportFilters = {}): ReportFilters {
  const [, name, value] = /^([^=]+)=(.*)$/s.exec(text) ?? []
  if (name === undefined || value === undefined) throw new InvalidArgumentError('It must be name=value.')
  const isBound = /^(min|max)[A-Z]/.test(name) && value !== '' && Number.isFinite(Number(value))
  return { ...before, [name]: isBound ? Number(value) : value }
}

/** Parses a parameter, such as `status=paid` or, with a JSON value, `seats:=3`, and adds it to the earlier ones. */
function parameterOf(text: string, before: Record<string, unknown> = {}): Record<string, unknown> {
  const [, name, isJson, value] = /^([^=:]+)(:?)=(.*)$/s.exec(text) ?? []
  if (name === undefined || value === undefined) throw new InvalidArgumentError('It must be name=value or name:=JSON.')
  try {
    return { ...before, [name]: isJson ? JSON.parse(value) : value }
  } catch {
    throw new InvalidArgumentError(`${value} is not JSON.`)
  }
}
