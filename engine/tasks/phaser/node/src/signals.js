'use strict';
// Whether the live code of a program makes a game, gives it a scene, and has the methods of a scene.
const walk = require('acorn-walk');

const keyName = (node) => (node.computed ? null : node.key.name || String(node.key.value));

function objectOf(node, ast) {
  if (!node) return null;
  if (node.type === 'ObjectExpression') return node;
  if (node.type !== 'Identifier') return null;
  let found = null;
  walk.full(ast, (each) => {
    if (each.type === 'VariableDeclarator' && each.id.name === node.name && each.init && each.init.type === 'ObjectExpression') found = each.init;
  });
  return found;
}

// game.scene.add(key, scene)
function isSceneAdd(node) {
  if (node.type !== 'CallExpression' || node.callee.type !== 'MemberExpression' || node.arguments.length < 2) return false;
  const { object, property } = node.callee;
  return property.name === 'add' && object.type === 'MemberExpression' && object.property.name === 'scene';
}

function sourceSignals(ast, live, gameNodes) {
  const signals = { has_new_phaser_game: false, has_scene_in_config: false, has_preload: false, has_create: false, has_update: false };
  walk.full(ast, (node) => {
    if (!live.has(node)) return;
    if (gameNodes.has(node)) {
      signals.has_new_phaser_game = true;
      const config = objectOf(node.arguments[0], ast);
      if (config && config.properties.some((property) => property.type === 'Property' && keyName(property) === 'scene')) signals.has_scene_in_config = true;
    }
    if (isSceneAdd(node)) signals.has_scene_in_config = true;
    if (node.type === 'AssignmentExpression' && node.left.type === 'MemberExpression' && node.left.property.name === 'scene') signals.has_scene_in_config = true;
    if (node.type === 'MethodDefinition' || (node.type === 'Property' && /Function|Identifier/.test(node.value.type))) {
      const name = keyName(node);
      if (name === 'preload' || name === 'create' || name === 'update') signals[`has_${name}`] = true;
    }
  });
  return signals;
}

module.exports = { sourceSignals };
